"""What both packages import, and within which bounds their dependencies may move."""

import ast
import itertools
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ingest
import rag_service

ROOT = Path(__file__).resolve().parents[2]
LEFT_BEHIND = ("langchain_community", "langchain_classic", "langchain")
BASELINE = ROOT / "tests/benchmarks/stock_ingest.py"  # the loaders that people use are in one of them
UNBOUNDED = {"types-PyYAML", "xllamacpp"}  # stubs, and calendar versions, where a major says nothing


def modules() -> Iterator[str]:
    """Every module of both packages but the two that run when imported."""
    for package in (rag_service, ingest):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                yield module.name


def test_br_64_every_module_imports_without_a_deprecation_warning() -> None:
    names = sorted(modules())
    assert len(names) > 40
    lines = ["import importlib"] + [f"importlib.import_module({name!r})" for name in names]
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", "\n".join(lines)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_br_64_nothing_imports_the_packages_that_langchain_left_behind() -> None:
    for package in ("rag_service", "ingest", "tests", "scripts"):
        for path in sorted({*(ROOT / package).rglob("*.py")} - {BASELINE}):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                assert not [name for name in names if name.split(".")[0] in LEFT_BEHIND], path


def test_br_64_every_dependency_has_an_upper_bound_on_its_major() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    for requirement in wanted:
        name = re.match(r"[\w.-]+", requirement)
        assert name is not None
        if name[0] not in UNBOUNDED:
            assert re.search(r"<\d|==\d", requirement), requirement


@pytest.mark.parametrize("module", ["ingest.cli", "rag_service.index.embeddings"])
def test_the_command_line_starts_without_loading_pytorch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
