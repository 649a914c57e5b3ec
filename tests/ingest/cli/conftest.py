"""A corpus and a home that the command line has filled: the real model and the local Chroma, once for all tests here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.ingest_cli import ROOT
from tests.support.service import run_ingest


@pytest.fixture(autouse=True)
def _modules_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three good files, one that is broken, one of no known type."""
    folder = tmp_path_factory.mktemp("my corpus #1")
    (folder / "hr").mkdir()
    (folder / "hr" / "leave.md").write_text("# Leave\n\nAnnual leave is 25 days.\n")
    (folder / "hr" / "sick [draft].md").write_text("Tell us by nine if you are sick.\n")
    (folder / "vpn 100%.md").write_text("The VPN is reached under its address.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nno more")
    (folder / "film.mp4").write_bytes(b"\x00")
    return folder


@pytest.fixture(scope="session")
def first_run(
    tmp_path_factory: pytest.TempPathFactory, corpus: Path
) -> "tuple[Path, subprocess.CompletedProcess[str]]":
    """A home with a space in its path, filled by the command line."""
    home = tmp_path_factory.mktemp("filled") / "my höme"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        return home, run_ingest(home, "run", str(corpus))


@pytest.fixture
def home(first_run: "tuple[Path, subprocess.CompletedProcess[str]]", tmp_path: Path) -> Path:
    """A copy of that home, for one test."""
    return Path(shutil.copytree(first_run[0], tmp_path / "my höme"))
