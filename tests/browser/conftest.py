"""A Chromium for the tests of this folder, and an eye on what its pages do.

In: /usr/bin/chromium, or the program that RAG_TEST_CHROMIUM names. Out: `page`, fresh for each test, with `watch`;
the service behind it, and `scripted_answer` for its model.
Must not: let a test pass whose page asked another host for anything, or wrote an error to the console.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.corpus import CORPUS
from tests.browser.watch import Watch
from tests.support.fake_vllm import FakeVllm, Responder, Step
from tests.support.service import ingested, running_service

HERE = Path(__file__).parent
CHROMIUM = os.environ.get("RAG_TEST_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",  # the tests also run as root, in containers
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


# Per module, not per session: while it runs, Playwright's event loop would be in the way of async tests elsewhere.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page_fake() -> Iterator[FakeVllm]:
    with FakeVllm.in_thread() as fake:
        yield fake


@pytest.fixture(scope="session")
def page_url(tmp_path_factory: pytest.TempPathFactory, page_fake: FakeVllm) -> Iterator[str]:
    """The chat page of a real service over `corpus.CORPUS`."""
    home = ingested(tmp_path_factory.mktemp("page"), CORPUS)
    with running_service(home, page_fake.base_url) as url:
        yield f"{url}/"


@pytest.fixture
def scripted_answer(page_fake: FakeVllm) -> Callable[[str | Sequence[Step] | Responder], FakeVllm]:
    """Sets what the model answers from now on, and returns it."""
    page_fake.requests.clear()

    def set_answer(answer: str | Sequence[Step] | Responder) -> FakeVllm:
        if isinstance(answer, str):
            page_fake.answer(answer)
        elif callable(answer):
            page_fake.respond(answer)
        else:
            page_fake.script(answer)
        return page_fake

    return set_answer


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(20_000)
    yield context
    context.close()


@pytest.fixture
def watch(page_url: str) -> Iterator[Watch]:
    watch = Watch(page_url)
    yield watch
    watch.check()


@pytest.fixture
def page(context: BrowserContext, page_url: str, watch: Watch) -> Page:
    """The chat page, loaded and ready for a question."""
    page = context.new_page()
    watch.follow(page)
    page.goto(page_url)
    page.locator("#served:not(:empty)").wait_for()
    return page
