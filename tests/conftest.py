"""What all tests share: an environment without settings of the person who runs them."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that wants a setting says so; RAG_TEST_ names are for the tests themselves."""
    for name in list(os.environ):
        if name.startswith("RAG_") and not name.startswith("RAG_TEST_"):
            monkeypatch.delenv(name)
