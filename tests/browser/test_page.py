"""The chat page against the real service: only the language model is scripted.

Fixtures expected from conftest.py:

    page_url: str
        Address of the page (`http://127.0.0.1:PORT/`) of a running rag-service whose index holds `corpus.CORPUS`, each
        entry a file of that name, and whose model is the fake vLLM of tests/support. No API key.
    scripted_answer: Callable[[str | Sequence[Step] | Responder], FakeVllm]
        Sets what that fake answers from now on (text, steps, or a function of the request's JSON), and returns it; its
        `requests` begin empty for each test.
"""

import re
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.corpus import BRIDGE, FLOOD, HOSTILE_NAME, LEAVE, ORCHARD, PAYLOAD
from tests.browser.watch import Watch
from tests.support.vllm_script import (
    END,
    Finish,
    OneByteWrites,
    Role,
    Stall,
    Status,
    Step,
    Token,
    UsageChunk,
    Wait,
    prompt_of,
)
from tests.support.vllm_server import FakeVllm, Responder

ScriptedAnswer = Callable[[str | Sequence[Step] | Responder], FakeVllm]


def number_of(fact: str, body: dict[str, Any]) -> int:
    """The number that the prompt gave to the source in which `fact` stands."""
    before = prompt_of(body).partition(fact)[0]
    return int(re.findall(r'<source id="(\d+)"', before)[-1])


def citing(fact: str, before: str = "") -> Responder:
    """A model that repeats `fact` and cites the number beside it."""
    return lambda body: f"{before}{fact.rstrip('.')} [{number_of(fact, body)}]."


def ask(page: Page, question: str) -> None:
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")


def ended(page: Page, phase: str = "done") -> None:
    expect(page.locator(".turn").last).to_have_attribute("data-phase", phase)


def test_tokens_are_shown_as_they_arrive(page: Page, scripted_answer: ScriptedAnswer) -> None:
    first, second = threading.Event(), threading.Event()
    scripted_answer([Role(), Token("One "), Wait(first), Token("two "), Wait(second), Token("three."), *END])
    page.evaluate(
        """() => {
          window.seen = [];
          const note = () => {
            const text = document.querySelector(".answer")?.textContent ?? "";
            if (text !== window.seen.at(-1)) window.seen.push(text);
          };
          new MutationObserver(note).observe(document.querySelector("#turns"), {childList: true, subtree: true});
        }"""
    )
    ask(page, "How many days of annual leave are there?")
    answer = page.locator(".answer")
    expect(answer).to_have_text("One")
    first.set()
    expect(answer).to_have_text("One two")
    second.set()
    ended(page)
    expect(answer).to_have_text("One two three.")
    seen = page.evaluate("window.seen")
    assert len(seen) >= 4
    assert all(later.startswith(earlier.rstrip()) for earlier, later in pairwise(seen))


@pytest.mark.parametrize(
    ("fact", "name", "question"),
    [
        (LEAVE, "leave.txt", "How many days of annual leave do full-time staff have?"),
        (FLOOD, "flood.txt", "How high was the Elbe flood of 1845 in Dresden?"),
        (BRIDGE, "bridge.txt", "In which stone was the Augustus bridge rebuilt?"),
    ],
)
def test_br_24_a_number_opens_the_document_that_had_it_in_the_prompt(
    page: Page, scripted_answer: ScriptedAnswer, fact: str, name: str, question: str
) -> None:
    fake = scripted_answer(citing(fact))
    ask(page, question)
    ended(page)
    number = number_of(fact, fake.requests[0].body)
    chip = page.locator(".answer .chip")
    expect(chip).to_have_attribute("data-n", str(number))
    expect(chip).to_contain_text("verified")
    card = page.locator(f'.source[data-n="{number}"]')
    expect(card).to_contain_text(name)
    expect(card).to_contain_text(fact)
    chip.click()
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("heading")).to_contain_text(name)
    expect(panel.locator("mark")).to_contain_text(fact.rstrip("."))
    expect(panel.locator("mark")).to_be_in_viewport()
    expect(panel.get_by_role("link", name="Open on its own page")).to_have_attribute(
        "href", re.compile(r"^/documents/\w+\?")
    )


def test_offsets_are_code_points_on_both_ends(page: Page, scripted_answer: ScriptedAnswer) -> None:
    scripted_answer(citing(ORCHARD, before="🌍👩‍🌾 𝒯hat is known 👍🏽!\n\n"))
    ask(page, "How many tonnes does the harvest of pears weigh in a good year?")
    ended(page)
    paragraph = page.locator(".answer p").last
    expect(paragraph.locator(".chip")).to_have_count(1)
    assert paragraph.evaluate("p => p.firstChild.textContent") == ORCHARD.rstrip(".") + " "
    paragraph.locator(".chip").click()
    mark = page.get_by_role("dialog").locator("mark")
    expect(mark).to_contain_text(ORCHARD.rstrip("."))
    text = page.locator(".document-text").text_content() or ""
    assert (mark.text_content() or "missing") in text
    assert "�" not in text


# Once with the service's content security policy, once with none: the page must not need it.
@pytest.mark.parametrize("bypass_csp", [False, True])
def test_br_04_what_a_document_holds_is_shown_as_text(
    context: BrowserContext, page_url: str, watch: Watch, scripted_answer: ScriptedAnswer, bypass_csp: bool
) -> None:
    browser = context.browser
    assert browser is not None
    own = browser.new_context(bypass_csp=bypass_csp)
    page = own.new_page()
    watch.follow(page)
    page.goto(page_url)
    scripted_answer(citing(PAYLOAD))
    ask(page, f"When does payroll run? {PAYLOAD}")
    ended(page)
    expect(page.locator(".question")).to_contain_text(PAYLOAD)
    expect(page.locator(".answer")).to_contain_text("<img src=x")
    source = page.locator(".source", has_text=HOSTILE_NAME)
    expect(source).to_contain_text("<script>")
    source.click()
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("heading")).to_have_text(HOSTILE_NAME)
    expect(panel.locator(".document-text")).to_contain_text("<svg onload=")
    page.keyboard.press("Escape")
    message = f"Broken: {PAYLOAD}"
    page.route(
        "**/rag-query", lambda route: route.fulfill(status=502, json={"error": {"code": PAYLOAD, "message": message}})
    )
    ask(page, "Again?")
    ended(page, "failed")
    expect(page.get_by_role("alert")).to_contain_text(message)
    watch.refusals = 1
    made = page.locator("main, dialog").locator("img, script, iframe, svg, object, embed, a[href^='javascript:']")
    expect(made).to_have_count(0)
    assert page.evaluate("window.canary") is None
    own.close()


def test_stop_ends_the_work_down_to_the_model(page: Page, scripted_answer: ScriptedAnswer) -> None:
    fake = scripted_answer([Role(), Token("This is the begin"), Stall()])
    ask(page, "How many days of annual leave are there?")
    expect(page.locator(".answer")).to_have_text("This is the begin")
    page.get_by_role("button", name="Stop").click()
    ended(page, "stopped")
    expect(page.locator(".turn")).to_contain_text("Stopped. This is not the whole answer.")
    expect(page.get_by_label("Your question")).to_be_focused()
    assert fake.requests[0].gone_sync.wait(20)


def test_an_error_is_shown_with_its_code_and_can_be_tried_again(
    page: Page, watch: Watch, scripted_answer: ScriptedAnswer
) -> None:
    scripted_answer([Status(500, {"error": {"message": "engine died"}})])
    ask(page, "How many days of annual leave are there?")
    ended(page, "failed")
    failure = page.get_by_role("alert")
    expect(failure).to_contain_text("upstream_rejected")
    expect(failure).to_contain_text(re.compile(r"request \S+"))
    scripted_answer(citing(LEAVE))
    failure.get_by_role("button", name="Try again").click()
    ended(page)
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator(".answer .chip")).to_have_count(1)
    watch.refusals = 1


def test_br_48_an_answer_that_was_cut_says_so(page: Page, scripted_answer: ScriptedAnswer) -> None:
    scripted_answer([Role(), Token("Leave is twenty-"), Finish("length"), UsageChunk(), *END[2:]])
    ask(page, "How many days of annual leave are there?")
    ended(page)
    expect(page.locator(".turn")).to_contain_text("Cut short")


def test_br_31_tables_and_code_keep_their_lines(page: Page, scripted_answer: ScriptedAnswer) -> None:
    code = "def f():\n\n    return a[1]  # data: x\nevent: y"
    table = "| Metal | Melts |\n| --- | --- |\n| tin | 232 |\n| zinc | 420 |"
    pieces = re.split(r"(\n| )", f"Two parts:\n\n{table}\n\n```python\n{code}\n```\n\ndata: **the** end")
    scripted_answer([Role(), *(Token(piece) for piece in pieces), *END])
    ask(page, "How many days of annual leave are there?")
    ended(page)
    assert page.locator(".answer pre code").text_content() == code
    rows = page.locator(".answer tr").all()
    assert [row.locator("th, td").all_text_contents() for row in rows] == [
        ["Metal", "Melts"],
        ["tin", "232"],
        ["zinc", "420"],
    ]
    expect(page.locator(".answer p").last).to_have_text("data: the end")


def test_br_47_characters_cut_by_the_network_come_out_whole(page: Page, scripted_answer: ScriptedAnswer) -> None:
    text = "假期 إجازة 👩‍👩‍👧‍👦 🌍 25"
    event = b'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n' % text.encode()
    scripted_answer([Role(), OneByteWrites(event), *END])
    ask(page, "How many days of annual leave are there?")
    ended(page)
    expect(page.locator(".answer")).to_have_text(text)


def test_the_keyboard_alone_is_enough(page: Page, scripted_answer: ScriptedAnswer) -> None:
    scripted_answer(citing(LEAVE))
    expect(page.get_by_label("Your question")).to_be_focused()
    page.keyboard.type("How many days of annual leave")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("do full-time staff have?")
    page.keyboard.press("Enter")
    ended(page)
    expect(page.locator(".question")).to_have_text("How many days of annual leave\ndo full-time staff have?")
    chip = page.locator(".answer .chip")
    expect(chip).to_have_count(1)
    for _ in range(30):
        if chip.evaluate("chip => chip === document.activeElement"):
            break
        page.keyboard.press("Shift+Tab")
    expect(chip).to_be_focused()
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel.locator("mark")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(chip).to_be_focused()


def test_a_follow_up_carries_the_conversation(page: Page, scripted_answer: ScriptedAnswer) -> None:
    scripted_answer("First answer.")
    ask(page, "How many days of annual leave are there?")
    ended(page)
    with page.expect_request("**/rag-query") as request:
        ask(page, "And when one is ill?")
    expect(page.locator(".turn")).to_have_count(2)
    ended(page)
    assert request.value.post_data_json == {
        "question": "And when one is ill?",
        "history": [
            {"role": "user", "content": "How many days of annual leave are there?"},
            {"role": "assistant", "content": "First answer."},
        ],
        "stream": True,
    }
    page.get_by_role("button", name="Start over").click()
    expect(page.locator(".turn")).to_have_count(0)
    expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()


def test_a_reader_who_scrolled_away_is_left_alone(page: Page, scripted_answer: ScriptedAnswer) -> None:
    page.set_viewport_size({"width": 1000, "height": 500})
    more = threading.Event()
    part = "\n\n".join(f"Line {i}." for i in range(60))
    scripted_answer([Role(), Token(part), Wait(more), Token(f"\n\n{part}\n\nThe end."), *END])
    ask(page, "How many days of annual leave are there?")
    expect(page.locator(".answer").get_by_text("Line 59.")).to_be_in_viewport()
    page.evaluate("scrollTo(0, 0)")
    more.set()
    ended(page)
    assert page.evaluate("scrollY") == 0
    expect(page.locator(".answer").get_by_text("The end.")).not_to_be_in_viewport()
