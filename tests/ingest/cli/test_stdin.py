"""`rag-ingest run -`: a document from standard input, as a pipe in a shell and as the service's uploads."""

import json
import subprocess
import sys
from pathlib import Path

from ingest.exits import FAILED, USAGE
from tests.support.ingest_cli import parse, uris
from tests.support.service import clean_environment


def piped(home: Path, sent: bytes, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "ingest", "run", "-", *arguments],
        env=clean_environment(home, {f"RAG_{name}": value for name, value in settings.items()}),
        cwd=home.parent,
        input=sent,
        capture_output=True,
        timeout=170,
        check=False,
    )


def test_br_29_a_document_from_standard_input_keeps_its_odd_name_and_is_updated_by_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = piped(home, b"# Leave\n\nAnnual leave is 25 days.\n", "--name", "../n\u00f6tes.md")
    assert first.returncode == 0, first.stderr
    [line], summary = parse(first.stdout.decode())
    assert (line["uri"], line["status"], summary["indexed"]) == ("stdin:///..%2Fn%C3%B6tes.md", "indexed", 1)
    with (tmp_path / "upload").open("wb") as file:
        file.write(b"# Leave\n\nAnnual leave is 30 days.\n")
    with (tmp_path / "upload").open("rb") as file:
        second = subprocess.run(
            [sys.executable, "-m", "ingest", "run", "-", "--name", "../n\u00f6tes.md"],
            env=clean_environment(home, {}),
            cwd=tmp_path,
            stdin=file,
            capture_output=True,
            timeout=170,
            check=False,
        )
    assert json.loads(second.stdout.splitlines()[0])["status"] == "updated"
    assert uris(home) == ["stdin:///..%2Fn%C3%B6tes.md"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "upload"]
    assert not (home / "incoming").exists()


def test_what_is_too_large_or_wrongly_described_is_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for arguments in ((), ("--name", ""), ("--name", "a", "--uri", "file:///a"), ("--name", "a", "--watch")):
        done = piped(home, b"words", *arguments)
        assert done.returncode == USAGE, arguments
        assert len(done.stderr.splitlines()) == 1
        assert not home.exists()
    large = piped(home, b"x" * 1_000_001, "--name", "large.txt", LOAD__MAX_FILE_MB="1")
    assert large.returncode == FAILED
    [line], _ = parse(large.stdout.decode())
    assert line["status"] == "failed"
    assert "RAG_LOAD__MAX_FILE_MB" in line["reason"]
