"""Wrong settings, wrong usage, help: in this process, since none of it gets as far as an index."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from ingest.cli import USAGE, app

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Calls the command line with settings, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RAG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: str, **chosen: str) -> Result:
        return CliRunner().invoke(app, arguments, env={f"RAG_{name}": value for name, value in chosen.items()})

    return call


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHUNKS__MAX_TOKENS", "many"),
        ("CHUNKS__MAX_TOKEN", "100"),
        ("CHROMA__URL", "no url"),
        ("CHROMA", "http://localhost:8000"),
        ("COLLECTION", "my documents"),
        ("EMBEDDINGS__DTYPE", "int4"),
    ],
)
def test_a_wrong_setting_is_named_with_exit_code_2(invoke: Invoke, name: str, value: str) -> None:
    done = invoke("status", **{name: value})
    assert done.exit_code == USAGE
    assert f"RAG_{name}:" in done.stderr
    assert value not in done.stderr.replace(f"RAG_{name}", "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_br_90_a_home_that_cannot_be_written_is_named_with_exit_code_2(
    invoke: Invoke, tmp_path: Path, corpus: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    done = invoke("run", str(corpus), HOME=str(tmp_path / "file" / "home"))
    assert done.exit_code == USAGE
    assert f"RAG_HOME: {tmp_path}/file/home cannot be written by user {os.getuid()}" in done.stderr


def test_a_home_below_the_users_own_folder_may_begin_with_a_tilde(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / ".env").write_text("RAG_HOME=~/index\n")
    assert f"{tmp_path}/me/index/catalog.sqlite3" in invoke("status").stderr


def test_wrong_usage_gives_exit_code_2_and_makes_nothing(invoke: Invoke, tmp_path: Path, corpus: Path) -> None:
    for arguments in (["run"], ["run", str(corpus / "missing")], ["run", str(corpus), "--wait", "-1"], ["mend"], []):
        done = invoke(*arguments)
        assert done.exit_code == USAGE, (arguments, done.output)
        assert "Usage:" in done.output
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("", ["run", "status", "delete", "RAG_HOME"]),
        (
            "run",
            [
                "PATH",
                "--include",
                "--exclude",
                "--metadata",
                "--dry-run",
                "--retry",
                "--no-prune",
                "--yes",
                "--json",
                "--wait",
                "--quiet",
                "--verbose",
                ".ragignore",
                ".meta.yaml",
                "node_modules",
                "rag-ingest run ./handbook --dry-run",
            ],
        ),
        ("status", ["--json"]),
        ("delete", ["PATH|URI|ID", "--json", "--wait", "The files themselves stay"]),
    ],
)
def test_help_tells_every_command_and_option(invoke: Invoke, command: str, told: list[str]) -> None:
    done = invoke(*command.split(), "--help")
    assert done.exit_code == 0
    for words in told:
        assert words in done.stdout


def test_a_bad_pair_or_pattern_is_named_with_exit_code_2(invoke: Invoke, tmp_path: Path, corpus: Path) -> None:
    for option, value in (("--metadata", "team"), ("--metadata", "uri=x"), ("--include", "!"), ("--exclude", "")):
        done = invoke("run", str(corpus), option, value)
        assert done.exit_code == USAGE, (option, value, done.output)
        assert f"{option}: {value!r}" in done.stderr
    assert [*tmp_path.iterdir()] == []
