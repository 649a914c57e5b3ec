"""The Dockerfile builds from files that are here, and what it builds runs without root.

In: Dockerfile and .dockerignore, read as text. Out: what would only show at build time on another machine.
Must not: need Docker.
"""

import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """(keyword, arguments) in order, with continued lines joined and comments dropped."""
    lines = "\n".join(line for line in TEXT.splitlines() if not line.lstrip().startswith("#"))
    return [
        (keyword.upper(), rest)
        for keyword, _, rest in (line.strip().partition(" ") for line in lines.replace("\\\n", " ").splitlines())
        if keyword
    ]


def final_stage() -> list[tuple[str, str]]:
    steps = instructions()
    last = max(index for index, (keyword, _) in enumerate(steps) if keyword == "FROM")
    return steps[last:]


def copied_from_here() -> list[str]:
    sources: list[str] = []
    for keyword, rest in instructions():
        if keyword == "COPY" and "--from" not in rest:
            *names, _target = shlex.split(rest)
            sources += names
    return sources


def test_br_90_the_image_runs_without_root_and_its_data_folder_belongs_to_its_user() -> None:
    users = [rest for keyword, rest in final_stage() if keyword == "USER"]
    assert users == ["10001:10001"]
    assert re.search(r"useradd --uid 10001 .* rag\b", " ".join(rest for _, rest in final_stage()))
    assert re.search(r"install --directory --owner=rag --group=rag \S+ /data", TEXT)
    assert "RAG_HOME=/data" in TEXT


@pytest.mark.parametrize("source", copied_from_here())
def test_what_is_copied_is_here_and_reaches_the_build(source: str) -> None:
    assert (ROOT / source).exists()
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = [rule.removeprefix("!").rstrip("/") for rule in rules if rule.startswith("!")]
    assert "*" in rules
    assert any(fnmatch(source, rule) or source.startswith(f"{rule}/") for rule in allowed)


def test_nothing_is_fetched_but_by_pip_and_every_base_image_has_an_exact_tag() -> None:
    keywords = {keyword for keyword, _ in instructions()}
    assert "ADD" not in keywords
    assert not re.search(r"\b(curl|wget|git clone)\b", TEXT)
    for keyword, rest in instructions():
        if keyword == "FROM":
            assert re.match(r"python:3\.\d+\.\d+-slim-\w+( AS \w+)?$", rest)


def test_br_64_dependencies_come_at_locked_versions_only() -> None:
    installs = [rest for keyword, rest in instructions() if keyword == "RUN" and "pip install" in rest]
    assert len(installs) == 2
    assert "--requirement requirements/run.lock" in installs[0]
    assert installs[1].endswith("--no-deps .")


def test_programs_are_started_directly_and_health_is_asked_of_the_service() -> None:
    last = dict(final_stage())
    assert last["CMD"] == '["rag-service"]'
    assert "ENTRYPOINT" not in last
    assert "/health" in last["HEALTHCHECK"]
    assert "curl" not in last["HEALTHCHECK"]
