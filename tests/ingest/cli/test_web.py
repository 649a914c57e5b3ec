"""`rag-ingest run https://…` as a process: settings, output, what it leaves behind. Rules are in pipeline/test_web_pages.py."""

from pathlib import Path

from ingest.exits import FAILED, USAGE
from tests.ingest.web.site import html, serving
from tests.support.ingest_cli import parse, uris
from tests.support.service import run_ingest

OPEN = {"WEB__ALLOW_PRIVATE": "true", "WEB__DELAY_S": "0"}


def test_br_43_a_site_of_this_machine_is_read_only_when_the_setting_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving() as site:
        site.pages["/leave"] = html("<title>Leave</title><p>Annual leave is 25 days.</p>")
        refused = run_ingest(home, "run", f"{site.base}/leave")
        assert refused.returncode in (0, FAILED), refused.stderr
        assert site.requests == []
        [line], _ = parse(refused.stdout)
        assert line["status"] in ("skipped", "failed")
        assert "RAG_WEB__ALLOW_PRIVATE" in line["reason"]
        done = run_ingest(home, "run", f"{site.base}/leave", **OPEN)
        assert done.returncode == 0, done.stderr
        assert [line["status"] for line in parse(done.stdout)[0]] == ["indexed"]
        assert uris(home) == [f"{site.base}/leave"]
    assert not (home / "incoming").exists()


def test_other_schemes_are_wrong_usage(tmp_path: Path) -> None:
    for address in ("file:///etc/passwd", "gopher://127.0.0.1/x", "ftp://example.com/x"):
        done = run_ingest(tmp_path / "home", "run", address)
        assert done.returncode == USAGE
        assert "http" in done.stderr
        assert len(done.stderr.splitlines()) == 1
