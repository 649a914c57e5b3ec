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


def on_terminal(home: Path, *arguments: str) -> tuple[int, str]:
    """Run it on a terminal of 100 columns; what it wrote, colours and cursor moves taken out."""
    master, slave = pty.openpty()
    environment = clean_environment(home, {"COLUMNS": "100", "LINES": "40", "TERM": "xterm"})
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
    assert "1/1 chunks" in text
    assert "━" in text
    assert "+ [red]new\ufffd[2J.md  1 chunks" in text
    assert "\x1b" not in text
    assert "Not in the index" in text
    assert re.search(r"failed +broken\.pdf +\w", text)
    assert re.search(r"skipped +film\.mp4 +unsupported type \.mp4", text)
    assert "1 indexed, 3 unchanged, 1 skipped, 1 failed; 1 new chunks." in text
    code, text = on_terminal(home, "status")
    assert code == 0
    assert re.search(r"documents +4", text)
    assert "failed: broken.pdf: " in text
