"""Markdown stays its own source; headings, tables and code are where a renderer sees them."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents.base import Blob

from ingest.documents import LoadedDocument, assemble, normalise_text
from ingest.loaders.markdown import MarkdownLoader


def loaded(source: str) -> LoadedDocument:
    return assemble(MarkdownLoader().lazy_parse(Blob.from_data(source)), "text/markdown", "markdown/2")


def headings(source: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in loaded(source).headings]


def test_headings_of_both_kinds() -> None:
    source = "# One #\n\ntext\n\nTwo\nlines\n===\n\nThree\n---\n\n### C# and **bold**\n"
    assert headings(source) == [(1, "One"), (1, "Two lines"), (2, "Three"), (3, "C# and **bold**")]
    document = loaded(source)
    assert document.text[document.headings[3].start :].startswith("### C#")


def test_br_81_code_brings_no_headings() -> None:
    source = (
        "# Real\n\n```sh\n# comment\n```\n\n~~~\n# tilde\n```\n# still\n~~~\n\n```py\n# longer\n`````\n\n"
        "    # indented\n\n- item\n  ```\n  # in a list\n  ```\n\n## Also real\n\n```\n# never closed\n"
    )
    assert headings(source) == [(1, "Real"), (2, "Also real")]
    document = loaded(source)
    assert document.text == source
    code = [atom.of(source) for atom in document.atoms]
    for line in ("# comment", "# tilde", "# still", "# longer", "    # indented", "# never closed"):
        assert line in code


def test_br_81_front_matter_is_text_but_no_heading() -> None:
    source = "---\ntitle: A\n# yaml comment\n---\n# Real\n"
    assert headings(source) == [(1, "Real")]
    assert loaded(source).text == source


def test_br_81_rows_of_a_long_table_are_atoms() -> None:
    rows = "".join(f"| {n} | {n * n} |\n" for n in range(60))
    document = loaded(f"# Squares\n\n| n | square |\n| --- | --- |\n{rows}\nafter\n")
    assert [atom.of(document.text) for atom in document.atoms][2:] == rows.splitlines()


def test_a_quoted_heading_is_no_section() -> None:
    assert headings("> # quoted\n\n- # in a list\n") == []


lines = st.sampled_from(
    [
        "# a",
        "```",
        "~~~",
        "`````",
        "text",
        "",
        "---",
        "===",
        "| a | b |",
        "|---|---|",
        "> q",
        "- item",
        "    code",
        "<div>",
        "\x0b",
        "\u2028x",
    ]
)


# A NUL makes the bytes look like UTF-16, which is tested with the encodings.
@given(st.lists(lines).map("\n".join) | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_nothing_is_lost_or_moved(source: str) -> None:
    document = loaded(source)
    assert document.text == normalise_text(source)
    for heading in document.headings:
        assert (
            document.text[heading.start :].lstrip().startswith(heading.text[:1]) or document.text[heading.start] == "#"
        )
