"""A disk that fills up in the midst of a run: told in words, nothing lost, and the next run with room completes."""

import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingest.cli import UNUSABLE
from rag_service.index.catalog import Catalog
from tests.support.fake_embeddings import FakeEmbeddings
from tests.support.ingest_cli import COLLECTION, parse
from tests.support.service import run_ingest

SMALL, LARGE = "24M", "400M"
Resize = Callable[[str], None]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Resize]]:
    """A file system of its own, and a function that gives it another size."""
    mount = tmp_path / "disk"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("no file system can be mounted here (that needs root)")

    def resize(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(mount)], check=True)

    yield mount, resize
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


@pytest.fixture
def embeddings() -> Iterator[dict[str, str]]:
    with FakeEmbeddings(dimension=64) as fake:
        yield {"EMBEDDINGS__BASE_URL": fake.base_url}


def prose(dice: random.Random, characters: int) -> str:
    words = [format(dice.randrange(16**6), "06x") for _ in range(characters // 8)]
    return "\n".join(" ".join(words[first : first + 12]) + "." for first in range(0, len(words), 12))


def test_br_03_a_disk_that_fills_up_loses_nothing_and_is_named(
    small_disk: tuple[Path, Resize], embeddings: dict[str, str], tmp_path: Path
) -> None:
    mount, resize = small_disk
    docs, home, dice = tmp_path / "docs", mount / "home", random.Random(3)
    docs.mkdir()
    (docs / "first.md").write_text("The badger called Anna weighs 12 kilograms.\n")
    assert run_ingest(home, "run", str(docs), **embeddings).returncode == 0
    for number in range(12):
        (docs / f"{number:02}.txt").write_text(prose(dice, 400_000))
    (docs / "first.md").write_text("The badger called Anna weighs 14 kilograms.\n")

    full = run_ingest(home, "run", str(docs), **embeddings)
    assert full.returncode == UNUSABLE, full.stdout + full.stderr
    assert "Traceback" not in full.stderr
    assert "no space" in full.stderr.lower() or "full" in full.stderr.lower(), full.stderr
    catalog = Catalog(home / "catalog.sqlite3")
    (badger,) = [document for document in catalog.documents(COLLECTION) if document.title == "first.md"]
    assert catalog.text(COLLECTION, badger.version)[0].startswith("The badger called Anna weighs 1")
    catalog.close()

    resize(LARGE)
    done = run_ingest(home, "run", str(docs), **embeddings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(parse(done.stdout)[1][status] for status in ("indexed", "updated", "unchanged")) == 13
    again = run_ingest(home, "run", str(docs), **embeddings)
    assert parse(again.stdout)[1]["unchanged"] == 13
