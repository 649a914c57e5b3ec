"""Source code: the text as it is, under the names of its classes and functions; notebooks by their cells."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.documents import family_for
from ingest.loaders.code import code_parts
from ingest.loaders.code_languages import FILE_NAMES, LANGUAGES, Language
from ingest.loaders.normalise import normalise_text
from rag_service.errors import LoadFailed

from .conftest import LoadBytes

BY_NAME = {language.name: language for language in LANGUAGES}


def test_python_has_its_classes_and_functions_as_headings(load_bytes: LoadBytes) -> None:
    source = (
        '"""Doc.\n\nclass of things that are no class\n"""\n\nimport os\n\n\n'
        "class Greeter(Base):\n    # Says hello.\n    @cached\n"
        "    def greet(self, name: str) -> str:\n        def inner():\n            pass\n        return name\n\n\n"
        "async def main():\n    pass\n"
    )
    document = load_bytes("a.py", source.encode())
    assert document.text == source
    assert document.media_type == "text/x-python"
    assert [(h.level, h.text) for h in document.headings] == [
        (1, "class Greeter(Base)"),
        (2, "def greet(self, name: str) -> str"),
        (3, "def inner()"),
        (1, "async def main()"),
    ]
    assert source[document.headings[1].start :].startswith("# Says hello.\n    @cached\n    def greet")


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("a.js", "import x;\nexport default async function* go(a) {\n}\nclass A extends B {\n  m() {}\n}\n",
         ["export default async function* go(a)", "class A extends B"]),
        ("a.ts", "export interface Box<T> {\n}\ntype Id = string\n",
         ["export interface Box<T>", "type Id = string"]),
        ("A.java", "public final class A<T> extends B {\n  public enum Kind { X }\n}\n",
         ["public final class A<T> extends B", "public enum Kind { X }"]),
        ("a.go", "func (s *Server) Run(ctx int) error {\n}\ntype Server struct {\n}\n",
         ["func (s *Server) Run(ctx int) error", "type Server struct"]),
        ("a.rs", "pub(crate) async fn run(a: u8) {}\nimpl<T> Foo<T> for Bar {\n}\nstruct Unit;\n",
         ["pub(crate) async fn run(a: u8) {}", "impl<T> Foo<T> for Bar"]),
        ("a.c", "struct point;\nstruct point {\n  int x;\n};\n", ["struct point"]),
        ("a.rb", "module M\n  class A < B\n    def ok?\n    end\n  end\nend\n", ["module M", "class A < B", "def ok?"]),
        ("a.sql", "-- users\nCREATE TABLE users (\n id int\n);\nselect 1;\n", ["CREATE TABLE users"]),
        ("a.tf", 'resource "aws_s3_bucket" "logs" {\n}\n', ['resource "aws_s3_bucket" "logs"']),
        ("a.sh", "#!/bin/sh\nbuild() {\n  make\n}\n", ["build()"]),
        ("a.toml", "[tool.ruff]\nx = 1\n[[list]]\n", ["[tool.ruff]", "[[list]]"]),
        ("a.yaml", "key: value\n", []),
        ("a.css", "a { b: c }\n", []),
        ("Dockerfile", "FROM scratch\nRUN x\n", ["FROM scratch"]),
    ],
)  # fmt: skip
def test_parts_of_other_languages_are_headings(load_bytes: LoadBytes, name: str, source: str, found: list[str]) -> None:
    document = load_bytes(name, source.encode())
    assert document.text == source
    assert [h.text for h in document.headings] == found


def test_every_line_of_code_is_kept_whole(load_bytes: LoadBytes) -> None:
    document = load_bytes("a.yaml", b"a: 1\n\nb:\n  - 2\n")
    assert [atom.of(document.text) for atom in document.atoms] == ["a: 1", "b:", "  - 2"]


def test_every_suffix_and_file_name_leads_to_its_language(tmp_path: Path) -> None:
    suffixes = [suffix for language in LANGUAGES for suffix in language.suffixes]
    assert len(suffixes) == len(set(suffixes))
    for language in LANGUAGES:
        for suffix in language.suffixes:
            (tmp_path / f"x{suffix.upper()}").write_text("words")
            family = family_for(tmp_path / f"x{suffix.upper()}")
            assert family is not None
            assert (family.name, family.media_type) == (f"code-{language.name}", language.media_type)
    assert set(FILE_NAMES.values()) <= BY_NAME.keys()


@pytest.mark.parametrize(
    "language", [language for language in LANGUAGES if language.heads], ids=lambda language: language.name
)
def test_generated_files_of_megabytes_pass(language: Language) -> None:
    one_line = "function a(){return[1,2,{b:c}]};class B{};" * 50_000
    traps = ("class " * 70 + "\n") * 500 + ("export " * 57 + "\n") * 500 + (" " * 399 + "\n") * 500 + "(" * 300 + "\n"
    for source in (one_line, traps, "<" * 390 + "\n" + "fn <" * 90 + "\n"):
        assert "".join(made.page_content for made in code_parts(source, language)) == source


@given(st.text("ab(){}:;#@/*-=\n\t \x0b\x85").map(normalise_text), st.sampled_from(LANGUAGES))
def test_the_parts_joined_are_the_source(source: str, language: Language) -> None:
    assert "".join(made.page_content for made in code_parts(source, language)) == source


def notebook(cells: list[object], **other: object) -> bytes:
    return json.dumps(
        {"nbformat": 4, "cells": cells, "metadata": {"kernelspec": {"language": "python"}}, **other}
    ).encode()


def test_a_notebook_is_its_markdown_and_code(load_bytes: LoadBytes) -> None:
    document = load_bytes(
        "a.ipynb",
        notebook(
            [
                {"cell_type": "markdown", "source": ["# Title\n", "\n", "Some *words*."]},
                {"cell_type": "code", "source": "x = 1\nprint(x)", "outputs": [{"text": "1"}, {"data": "png"}]},
                {"cell_type": "raw", "source": "as it is"},
                {"cell_type": "code", "source": [], "outputs": []},
                "no cell",
            ]
        ),
    )
    assert document.text == "# Title\n\nSome *words*.\n\nx = 1\nprint(x)\n\nas it is\n\n"
    assert [(h.level, h.text) for h in document.headings] == [(1, "Title")]
    assert [atom.of(document.text) for atom in document.atoms] == ["x = 1", "print(x)"]
    assert document.notes == ("left out: outputs of code cells (2)",)
    assert document.metadata == {"programming_language": "python"}


def test_an_old_notebook_has_its_cells_in_worksheets(load_bytes: LoadBytes) -> None:
    cells = [{"cell_type": "heading", "level": 2, "source": ["Old"]}, {"cell_type": "code", "input": ["y = 2"]}]
    document = load_bytes("a.ipynb", json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}).encode())
    assert document.text == "Old\n\ny = 2\n\n"
    assert [(h.level, h.text) for h in document.headings] == [(2, "Old")]


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"a": 1}', b"[" * 10_000, b"null"])
def test_br_21_what_is_no_notebook_says_so(load_bytes: LoadBytes, data: bytes) -> None:
    with pytest.raises(LoadFailed, match="not a notebook"):
        load_bytes("a.ipynb", data)
