"""Settings of the service: what the environment may say, and how a wrong word is told."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from rag_service.__main__ import is_loopback, require_guard
from rag_service.errors import InvalidSettings
from rag_service.settings import ServerSettings, Settings, load_settings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No .env of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)


def test_the_defaults_are_those_of_the_design() -> None:
    settings = load_settings()
    assert (settings.home, settings.collection) == (Path(".rag"), "documents")
    assert (settings.server.host, settings.server.port, settings.server.workers) == ("127.0.0.1", 8000, 1)
    assert (settings.llm.base_url, settings.llm.model, settings.chroma.url) == (None, None, None)
    assert settings.stream.flush_interval_ms == 15
    assert settings.server.cors_origins == ()


def test_the_environment_and_a_file_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("RAG_COLLECTION=from-file\nRAG_SERVER__PORT=81\nUNRELATED=1\n")
    monkeypatch.setenv("RAG_SERVER__PORT", "82")
    monkeypatch.setenv("RAG_LLM__BASE_URL", "http://gpu-box:8000/v1")
    monkeypatch.setenv("RAG_SERVER__CORS_ORIGINS", '["https://chat.example.org"]')
    settings = load_settings()
    assert (settings.collection, settings.server.port) == ("from-file", 82)
    assert str(settings.llm.base_url) == "http://gpu-box:8000/v1"
    assert settings.server.cors_origins == ("https://chat.example.org",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAG_SERVER__PORT", "eighty"),
        ("RAG_SERVER__PORT", "70000"),
        ("RAG_SERVER__PROT", "80"),
        ("RAG_SERVER__API_KEY", "   "),
        ("RAG_COLLECTION", "My Docs"),
        ("RAG_LLM__BASE_URL", "gpu box"),
        ("RAG_ADMISSION__MAX_RUNNING", "0"),
        ("RAG_STREAM__PING_INTERVAL_S", "0"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings, match=name) as error:
        load_settings()
    assert value == "80" or value.strip() == "" or value == "0" or value not in error.value.message


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LLM__API_KEY", "sk-CANARY")
    monkeypatch.setenv("RAG_SERVER__API_KEY", "key-CANARY")
    monkeypatch.setenv("RAG_CHROMA__TOKEN", "token-CANARY")
    settings = load_settings()
    assert "CANARY" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().server.port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("host", "key", "allow_open", "starts"),
    [
        ("127.0.0.1", None, False, True),
        ("127.9.9.9", None, False, True),
        ("::1", None, False, True),
        ("localhost", None, False, True),
        ("0.0.0.0", None, False, False),
        ("::", None, False, False),
        ("", None, False, False),
        ("192.168.0.7", None, False, False),
        ("rag.example.org", None, False, False),
        ("localhost.example.org", None, False, False),
        ("0.0.0.0", "key", False, True),
        ("0.0.0.0", None, True, True),
    ],
)
def test_br_05_beyond_loopback_a_key_is_needed(host: str, key: str | None, allow_open: bool, starts: bool) -> None:
    server = ServerSettings(host=host, api_key=SecretStr(key) if key else None, allow_open=allow_open)
    if starts:
        require_guard(server)
        return
    assert not is_loopback(host)
    with pytest.raises(InvalidSettings, match="RAG_SERVER__API_KEY"):
        require_guard(server)
