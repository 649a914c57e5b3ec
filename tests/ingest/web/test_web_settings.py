"""`RAG_WEB__…` reach the fetcher under the same names, with the same defaults, and never open the inside by accident."""

import pytest

from ingest.settings import load_settings
from ingest.web.options import WebOptions
from rag_service.errors import InvalidSettings


def test_br_43_the_defaults_are_the_fetcher_s_own() -> None:
    assert load_settings().web_options == WebOptions()
    assert not WebOptions().allow_private
    assert WebOptions().respect_robots


def test_br_43_settings_reach_the_fetcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MAX_MB": "7",
        "DELAY_S": "0",
        "ALLOW_PRIVATE": "true",
        "USER_AGENT": "docs (+mailto:a@b.example)",
    }.items():
        monkeypatch.setenv(f"RAG_WEB__{name}", value)
    options = load_settings().web_options
    assert (options.max_bytes, options.delay_s, options.allow_private) == (7_000_000, 0.0, True)
    assert options.user_agent == "docs (+mailto:a@b.example)"


@pytest.mark.parametrize("agent", ["a\r\nHost: other", " ", "é", "x" * 300])
def test_br_43_a_sender_s_name_that_no_header_can_hold(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_WEB__USER_AGENT", agent)
    with pytest.raises(InvalidSettings, match="RAG_WEB__USER_AGENT"):
        load_settings()
