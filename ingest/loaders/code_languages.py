"""The languages of source code: their files, and which lines begin a class, a function or a section.

In: nothing. Out: a table. Must not: parse a language; list a suffix that documents have too.
"""

import re
from dataclasses import dataclass

_MODIFIERS = (
    "export default declare public private protected internal fileprivate open abstract final sealed static partial data"
    " inner inline override virtual async suspend unsafe extern const case implicit pub pub(crate) pub(super)"
)
_MODIFIER = "|".join(map(re.escape, _MODIFIERS.split()))


def _declared_by(*keywords: str) -> re.Pattern[str]:
    """A line such as `public class Name {` or `pub fn name(`. One that ends in a semicolon only announces; in a sentence of
    a comment, another word follows the name."""
    return re.compile(
        rf"[ \t]{{0,80}}(?:(?:{_MODIFIER})[ \t]+){{0,6}}(?:{'|'.join(keywords)})\b[ \t]*(?:<[^>]{{0,80}}>|\([^)]{{0,80}}\)|\*)?"
        r"[ \t]*[\w$.:~@'?!-]{1,200}[ \t]*(?:[({<\[=:,|]|extends\b|implements\b|where\b|for\b|with\b|\w+\s*\{|$)(?!.*;\s*$)",
    )


_TYPES = ("class", "interface", "enum", "struct", "namespace")
_SCRIPT = _declared_by(*_TYPES, "function", "type")
_SECTION = re.compile(r"\[\[?[^\]\n]{1,200}\]")
_SLASHES = re.compile(r"\s*(?://|/\*|\*|@|#\[)")
_HASHES = re.compile(r"\s*[#@]")
_DASHES = re.compile(r"\s*--")


@dataclass(frozen=True, slots=True)
class Language:
    """`heads` matches the lines that begin a part with a name; `above` those before it that belong to it: comments and
    decorators."""

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    heads: re.Pattern[str] | None = None
    above: re.Pattern[str] = _SLASHES


_PYTHON = re.compile(r"[ \t]{0,80}(?:(?:async[ \t]+)?def|class)[ \t]+\w{1,200}[ \t]*[(:\[]")
_SQL = re.compile(
    r"\s{0,80}create\s+(?:or\s+replace\s+)?(?:\w+\s+){0,2}(?:table|view|function|procedure|trigger|type)\b", re.I
)
_TERRAFORM = re.compile(r'(?:resource|data|module|variable|output|provider)\s+"[^"\n]{1,200}"')
_SHELL = re.compile(r"[ \t]{0,80}(?:function[ \t]+[\w:-]{1,200}|[\w:-]{1,200}[ \t]*\(\))")
_R = re.compile(r"[\w.]{1,200}\s*(?:<-|=)\s*function\s*\(")

LANGUAGES = (
    Language("python", "text/x-python", (".py", ".pyi", ".pyw"), _PYTHON, _HASHES),
    Language("javascript", "text/javascript", (".js", ".mjs", ".cjs", ".jsx"), _SCRIPT),
    Language("typescript", "text/x-typescript", (".ts", ".tsx", ".mts", ".cts"), _SCRIPT),
    Language("vue", "text/x-vue", (".vue", ".svelte")),
    Language(
        "java", "text/x-java", (".java", ".groovy", ".gradle"), _declared_by(*_TYPES, "record", "@interface", "def")
    ),
    Language("kotlin", "text/x-kotlin", (".kt", ".kts"), _declared_by(*_TYPES, "object", "fun")),
    Language("scala", "text/x-scala", (".scala", ".sc"), _declared_by(*_TYPES, "object", "trait", "def")),
    Language("c", "text/x-c", (".c", ".h"), _declared_by(*_TYPES, "union")),
    Language("cpp", "text/x-c++", (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".cu", ".ino"), _declared_by(*_TYPES)),
    Language(
        "objective-c", "text/x-objective-c", (".m", ".mm"), _declared_by("@interface", "@implementation", "@protocol")
    ),
    Language("csharp", "text/x-csharp", (".cs",), _declared_by(*_TYPES, "record")),
    Language("go", "text/x-go", (".go",), _declared_by("func", "type")),
    Language("rust", "text/x-rust", (".rs",), _declared_by("fn", "struct", "enum", "trait", "impl", "mod")),
    Language("swift", "text/x-swift", (".swift",), _declared_by(*_TYPES, "func", "protocol", "extension", "actor")),
    Language("dart", "text/x-dart", (".dart",), _declared_by(*_TYPES, "mixin", "extension")),
    Language("ruby", "text/x-ruby", (".rb", ".rake", ".gemspec"), _declared_by("class", "module", "def"), _HASHES),
    Language("php", "text/x-php", (".php", ".phtml"), _declared_by(*_TYPES, "trait", "function")),
    Language("perl", "text/x-perl", (".pl", ".pm"), _declared_by("sub", "package"), _HASHES),
    Language("lua", "text/x-lua", (".lua",), _declared_by("function", "local function"), _DASHES),
    Language("r", "text/x-r", (".r", ".rmd"), _R, _HASHES),
    Language("julia", "text/x-julia", (".jl",), _declared_by("function", "struct", "module", "macro"), _HASHES),
    Language("haskell", "text/x-haskell", (".hs",), _declared_by("data", "class", "module"), _DASHES),
    Language("elixir", "text/x-elixir", (".ex", ".exs"), _declared_by("defmodule", "def", "defp"), _HASHES),
    Language("erlang", "text/x-erlang", (".erl",)),
    Language("clojure", "text/x-clojure", (".clj", ".cljs", ".edn")),
    Language("zig", "text/x-zig", (".zig",), _declared_by("fn")),
    Language("shell", "text/x-shellscript", (".sh", ".bash", ".zsh", ".fish", ".ksh"), _SHELL, _HASHES),
    Language("powershell", "text/x-powershell", (".ps1", ".psm1"), _declared_by("function", "class"), _HASHES),
    Language("batch", "text/x-bat", (".bat", ".cmd")),
    Language("sql", "text/x-sql", (".sql",), _SQL, _DASHES),
    Language("protobuf", "text/x-protobuf", (".proto",), _declared_by("message", "service", "enum")),
    Language(
        "graphql", "text/x-graphql", (".graphql", ".gql"), _declared_by("type", "input", "enum", "interface"), _HASHES
    ),
    Language("terraform", "text/x-terraform", (".tf", ".tfvars", ".hcl"), _TERRAFORM, _HASHES),
    Language("yaml", "text/x-yaml", (".yaml", ".yml")),
    Language("toml", "text/x-toml", (".toml",), _SECTION, _HASHES),
    Language("ini", "text/x-ini", (".ini", ".cfg", ".properties"), _SECTION, re.compile(r"\s*[#;]")),
    Language("xml", "text/xml", (".xml", ".xsd", ".xsl", ".xslt", ".rss", ".atom")),
    Language("css", "text/css", (".css", ".scss", ".sass", ".less")),
    Language("json5", "text/x-json5", (".jsonc", ".json5")),
    Language("dockerfile", "text/x-dockerfile", (".dockerfile",), re.compile(r"FROM\s", re.I), _HASHES),
    Language("makefile", "text/x-makefile", (".mk", ".mak")),
    Language("cmake", "text/x-cmake", (".cmake",), re.compile(r"(?:function|macro)\s*\(", re.I), _HASHES),
)
# Files known by their whole name, in lower case; `dockerfile.dev` counts by what stands before its dot.
FILE_NAMES = {
    "dockerfile": "dockerfile", "containerfile": "dockerfile", "makefile": "makefile", "gnumakefile": "makefile",
    "cmakelists.txt": "cmake", "jenkinsfile": "java", "vagrantfile": "ruby", "gemfile": "ruby", "rakefile": "ruby",
}  # fmt: skip
