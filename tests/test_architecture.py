"""Who may import whom (DESIGN.md, section 3), and that breaking it breaks the build.

Imports between our own modules are import-linter's (`[tool.importlinter]` in pyproject.toml); libraries, the environment and
what happens at import are checked here, by reading the source. Every rule is also tried on a copy in which it is broken.
"""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Where a library may be imported; one that is not listed may be used anywhere but in pure modules.
HOMES = {
    "fastapi": ("rag_service/app.py", "rag_service/__main__.py", "rag_service/api/"),
    "starlette": ("rag_service/app.py", "rag_service/__main__.py", "rag_service/api/"),
    "uvicorn": ("rag_service/__main__.py",),
    "aiohttp": ("rag_service/upstream/",),
    "chromadb": (
        "rag_service/index/vector_store.py",
        "rag_service/index/async_vector_store.py",
        "rag_service/index/chroma_client.py",
        "rag_service/local/",
    ),
    "opentelemetry": ("rag_service/telemetry/tracing.py",),
    "prometheus_client": ("rag_service/telemetry/", "rag_service/api/routes_service.py"),
    "sqlite3": ("rag_service/index/",),
    "torch": ("rag_service/index/embeddings.py", "rag_service/index/passes.py"),
    "sentence_transformers": ("rag_service/index/embeddings.py", "rag_service/index/passes.py"),
    "transformers": ("rag_service/index/embeddings.py",),
    "xllamacpp": ("rag_service/local/",),
    "typer": ("ingest/cli.py", "ingest/cli_index.py"),
    "rich": ("ingest/terminal.py", "ingest/report_index.py"),
    "yaml": ("ingest/loaders/",),
    "pathspec": ("ingest/selection.py",),
    "lxml": ("ingest/loaders/", "ingest/web/sitemaps.py"),
    **dict.fromkeys(("httpcore", "protego", "idna"), ("ingest/web/",)),
    **dict.fromkeys(("pypdfium2", "docx", "pptx", "openpyxl", "python_calamine"), ("ingest/loaders/",)),
    **dict.fromkeys(("markdown_it", "charset_normalizer"), ("ingest/loaders/",)),
    **dict.fromkeys(("rapidocr", "onnxruntime", "cv2", "PIL"), ("ingest/loaders/",)),
}
PURE = {
    "rag_service/errors.py",
    "rag_service/events.py",
    "rag_service/admission.py",
    "rag_service/citations.py",
    "rag_service/markers.py",
    "rag_service/sentences.py",
    "rag_service/verification.py",
    "rag_service/vocabulary.py",
    "rag_service/wording.py",
    "rag_service/index/spans.py",
    "rag_service/index/chunks.py",
    "rag_service/index/fingerprint.py",
    "rag_service/index/token_estimate.py",
    "ingest/chunker.py",
    "ingest/chunking/fitting.py",
    "ingest/chunking/graphemes.py",
    "ingest/chunking/packing.py",
    "ingest/chunking/rows.py",
    "ingest/chunking/sentences.py",
    "ingest/chunking/units.py",
}
READS_THE_ENVIRONMENT = {
    "rag_service/__main__.py",  # hands its options on to uvicorn's workers
    "rag_service/ingest_run.py",  # rag-ingest gets the caller's, without the service's own keys
    "rag_service/local/server.py",  # child servers get the caller's, without this product's settings
}
BUILDS_SETTINGS = {
    "rag_service/__main__.py",
    "rag_service/settings.py",
    "ingest/cli.py",
    "ingest/cli_index.py",
    "ingest/settings.py",
}


def sources(root: Path) -> Iterator[tuple[str, ast.Module]]:
    for package in ("rag_service", "ingest"):
        for path in sorted((root / package).rglob("*.py")):
            yield path.relative_to(root).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> set[str]:
    """Dotted names of all that is imported, anywhere in the module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def called(tree: ast.Module) -> set[str]:
    """Last names of all that is called, and of all attributes that are read."""
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return names | {call.id for call in calls if isinstance(call, ast.Name)}


def broken_rules(root: Path) -> list[str]:
    """Every breach, as a sentence."""
    found = []
    for path, tree in sources(root):
        tops = {name.split(".")[0] for name in imported(tree)}
        homeless = {library for library in tops & HOMES.keys() if not path.startswith(HOMES[library])}
        found += [f"{path} imports {library}, which belongs to {', '.join(HOMES[library])}" for library in homeless]
        if path in PURE:
            pure = tuple(module.removesuffix(".py").replace("/", ".") for module in PURE)
            strange = {
                name
                for name in imported(tree)
                if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith(pure)
            }
            found += [f"{path} is pure, but imports {name}" for name in sorted(strange)]
        if called(tree) & {"environ", "getenv", "environb", "load_dotenv"} and path not in READS_THE_ENVIRONMENT:
            found.append(f"{path} reads the environment")
        if (
            called(tree) & {"load_settings", "Settings", "IngestSettings", "IndexSettings"}
            and path not in BUILDS_SETTINGS
        ):
            found.append(f"{path} builds settings")
    return found


def lint_imports(root: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"], cwd=root, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(root)}
    )


# Importing everything must open no connection, start nothing, and write nothing: parts are built by app.py, later.
IMPORT_ALL = """
import importlib, pkgutil, sys, threading
def watch(event, arguments):
    if event in ("socket.connect", "socket.bind", "subprocess.Popen", "sqlite3.connect", "os.mkdir", "os.fork"):
        raise AssertionError(f"{event} at import: {arguments}")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise AssertionError(f"written at import: {arguments}")
import chromadb, langchain_core.runnables  # what libraries do at import is their affair
sys.addaudithook(watch)
for package in ("rag_service", "ingest"):
    for module in pkgutil.walk_packages([package], package + "."):
        importlib.import_module(module.name)
assert threading.active_count() == 1, threading.enumerate()
assert "torch" not in sys.modules, "torch takes seconds and is imported when it is used"
"""


def import_everything(root: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-B", "-c", IMPORT_ALL],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(root), "HOME": str(root)},
    )


def test_the_rules_hold() -> None:
    assert broken_rules(ROOT) == []


def test_imports_between_our_modules_go_downwards() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_built_at_import() -> None:
    done = import_everything(ROOT)
    assert done.returncode == 0, done.stderr


def test_every_pure_module_is_there() -> None:
    assert {path for path, _ in sources(ROOT)} >= PURE


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Our source, to be broken."""
    for package in ("rag_service", "ingest"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def spoil(root: Path, path: str, line: str) -> None:
    with (root / path).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("rag_service/retrieval.py", "from starlette.requests import Request"),
        ("rag_service/answer.py", "import fastapi"),
        ("rag_service/retrieval.py", "def f():\n    import chromadb"),
        ("ingest/pipeline.py", "import pypdfium2"),
        ("rag_service/citations.py", "import orjson"),
        ("rag_service/index/spans.py", "from rag_service.index.catalog import Catalog"),
        ("rag_service/retrieval.py", "import os\nHOME = os.environ['RAG_HOME']"),
        ("rag_service/app.py", "from rag_service.settings import Settings\nSETTINGS = Settings()"),
    ],
)
def test_a_broken_rule_is_found(copy: Path, path: str, line: str) -> None:
    spoil(copy, path, line)
    assert [rule for rule in broken_rules(copy) if rule.startswith(path)]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("rag_service/app.py", "import ingest.settings"),
        ("rag_service/index/catalog.py", "import rag_service.events"),
        ("rag_service/errors.py", "import rag_service.index.spans"),
        ("rag_service/answer.py", "import rag_service.api.errors"),
        ("rag_service/prompt.py", "import rag_service.answer"),
        ("ingest/pipeline.py", "import rag_service.events"),
        ("ingest/loaders/pdf.py", "import ingest.pipeline"),
        ("rag_service/nowhere.py", "import rag_service.errors"),
    ],
)
def test_a_forbidden_import_breaks_the_build(copy: Path, path: str, line: str) -> None:
    spoil(copy, path, line)
    assert lint_imports(copy).returncode != 0


def test_work_at_import_breaks_the_build(copy: Path) -> None:
    spoil(copy, "rag_service/retrieval.py", "import sqlite3\nDATABASE = sqlite3.connect(':memory:')")
    done = import_everything(copy)
    assert done.returncode != 0
    assert "sqlite3.connect at import" in done.stderr
