"""The form for people: a bar, lines, a table, and no control over the terminal for those who name files."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ingest.cli import FAILED
from tests.support.service import clean_environment


def on_terminal(home: Path, *arguments: str, **changed: str) -> tuple[int, str]:
    """Run it on a terminal of 100 columns; what it wrote, colours and cursor moves taken out."""
    master, slave = pty.openpty()
    environment = clean_environment(home, {"COLUMNS": "100", "LINES": "40", "TERM": "xterm", **changed})
    process = subprocess.Popen(
        [sys.executable, "-m", "ingest", *arguments], env=environment, cwd=home.parent, stdout=slave, stderr=slave
    )
    os.close(slave)
    written = bytearray()
    with suppress(OSError):  # a terminal whose other end has gone
        while block := os.read(master, 65_536):
            written += block
    os.close(master)
    return process.wait(), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode())


def test_on_a_terminal_there_is_a_bar_and_a_table_of_what_was_not_taken(
    home: Path, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "[red]new\x1b[2J.md").write_text("Words that are new.\n" * 3)
    code, text = on_terminal(home, "run", str(corpus), str(tmp_path / "new"))
    assert code == FAILED
    assert "Looking for documents" in text
    assert "0/6 files" in text
    assert "━" in text
    assert "+ new/[red]new\ufffd[2J.md  1 chunk" in text
    assert "\x1b" not in text
    assert "Not in the index" in text
    assert re.search(r"failed +my corpus #10?/broken\.pdf +\w", text)
    assert re.search(r"skipped +my corpus #10?/film\.mp4 +unsupported type \.mp4", text)
    assert "1 indexed, 3 unchanged, 1 skipped, 1 failed; 1 new chunk." in text
    code, text = on_terminal(home, "status")
    assert code == 0
    assert re.search(r"documents +4", text)
    assert "1 skipped: unsupported type .mp4" in text
    assert "--retry" in text


def test_a_narrow_terminal_without_colours_loses_no_number(home: Path, corpus: Path) -> None:
    code, text = on_terminal(home, "run", str(corpus), "--verbose", COLUMNS="60", NO_COLOR="1")
    assert code == FAILED
    assert "0/5 files" in text
    assert "= hr/leave.md" in text
    assert all(len(line) <= 60 for line in re.split(r"[\r\n]+", text) if not line.startswith("="))
    assert "3 unchanged, 1 skipped, 1 failed; 0 new chunks." in text
    code, text = on_terminal(home, "run", str(corpus), "--quiet")
    assert code == FAILED
    assert "files" not in text
    assert "broken.pdf" in text
    assert "film.mp4" not in text
    code, text = on_terminal(home, "run", str(corpus), "--dry-run", "--metadata", "team=hr")
    assert code == 0
    assert re.search(r"~ hr/leave\.md +changed", text)
    assert "3 changed, 1 skipped, 1 failed; 0 bytes to read. Nothing was changed." in text
