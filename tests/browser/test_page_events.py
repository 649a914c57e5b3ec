"""What the page makes of single events, answered in the browser itself, so that each is exactly as a test wants it.

The page, its policy and the documents come from the real service: fixtures as in test_page.py.
"""

import json
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.watch import Watch

TEXT = "🌍 Leave is 25 days [1]. Cash is paid [2]. Ill people rest [3]. Pay is monthly [4]. Trams cross the bridge."
CLAIMS = [
    ("Leave is 25 days", 1, "verified", 1),
    ("Cash is paid", 2, "unsupported", 2),
    ("Ill people rest", 3, "weak", 3),
    ("Pay is monthly", 4, "misattributed", 1),
    ("Trams cross the bridge", 5, "verified", 5),
]
DONE = {
    "type": "done",
    "finish_reason": "stop",
    "usage": None,
    "citations": {},
    "timings_ms": {"first_token": 120, "total": 900},
}


def source(n: int) -> dict[str, Any]:
    return {
        "n": n,
        "document_id": f"d{n}",
        "version": "v",
        "chunk_id": f"c{n}",
        "title": f"file{n}.pdf",
        "uri": f"file:///file{n}.pdf",
        "url": f"/documents/d{n}",
        "heading": "Part > Section",
        "page_start": 3,
        "page_end": 4,
        "start": 0,
        "end": 7,
        "score": 0.8,
        "text": "Passage",
    }


def citation(claim: str, n: int, status: str, found_in: int) -> dict[str, Any]:
    """A citation of `claim`, its span in code points as the service counts them."""
    start = TEXT.index(claim)
    quote = None if status == "unsupported" else f"Quote {found_in}"
    place = {"start": None, "end": None} if quote is None else {"start": 0, "end": 7}
    passage = {key: source(found_in)[key] for key in ("n", "document_id", "version", "chunk_id", "title", "page_start")}
    return {
        "type": "citation",
        "id": f"k{n}",
        "n": n,
        "answer": {"start": start, "end": start + len(claim)},
        "source": {**passage, "page_end": 3, **place, "quote": quote},
        "status": status,
        "score": 0.9,
    }


def stream(page: Page, *events: dict[str, Any]) -> None:
    """Answer the next questions with these events."""
    body = ": ping\n\n" + "".join(f"event: {event['type']}\r\ndata: {json.dumps(event)}\r\n\r\n" for event in events)
    page.route("**/rag-query", lambda route: route.fulfill(content_type="text/event-stream; charset=utf-8", body=body))


def ask(page: Page) -> None:
    page.get_by_label("Your question").fill("What is in the files?")
    page.keyboard.press("Enter")


def answered(page: Page, phase: str = "done") -> None:
    expect(page.locator(".turn").last).to_have_attribute("data-phase", phase)


def test_every_status_is_told_in_words(page: Page) -> None:
    sources = {"type": "sources", "sources": [source(n) for n in range(1, 6)]}
    stream(page, sources, {"type": "delta", "text": TEXT}, *(citation(*claim) for claim in CLAIMS), DONE)
    ask(page)
    answered(page)
    names = [chip.text_content() for chip in page.locator(".answer .chip").all()]
    assert names == [
        "source 1✓, verified",
        "source 2?, unsupported",
        "source 3~, weak",
        "source 4→, misattributed, see source 1",
        "source 5✓, verified",
    ]
    expect(page.locator(".verdicts summary")).to_contain_text("2 verified")
    page.locator(".verdicts summary").click()
    expect(page.get_by_text("Another source says it; the mark leads there.").last).to_be_visible()
    expect(page.locator(".source").first).to_contain_text("file1.pdfpp. 3–4Part > SectionPassage")
    expect(page.locator(".timings")).to_have_text("first token 120 ms · total 900 ms")


def test_a_sentence_without_a_marker_gets_its_chip_behind_it(page: Page) -> None:
    stream(page, {"type": "sources", "sources": []}, {"type": "delta", "text": TEXT}, citation(*CLAIMS[4]), DONE)
    ask(page)
    answered(page)
    before = page.locator(".answer .chip").evaluate("chip => chip.previousSibling.textContent")
    assert before.endswith("Trams cross the bridge. ")


def test_markers_that_were_not_checked_stay_as_they_were_written(page: Page) -> None:
    stream(page, {"type": "sources", "sources": [source(1)]}, {"type": "delta", "text": "A [1] and `b[1]`."}, DONE)
    ask(page)
    answered(page)
    expect(page.locator(".answer")).to_have_text("A [1] and b[1].")
    expect(page.locator(".answer .chip")).to_have_count(0)


def test_a_stream_that_just_ends_is_called_broken(page: Page) -> None:
    stream(page, {"type": "sources", "sources": []}, {"type": "delta", "text": "Half an ans"})
    ask(page)
    answered(page, "failed")
    expect(page.get_by_role("alert")).to_contain_text("The answer broke off. The connection broke")
    expect(page.locator(".answer")).to_have_text("Half an ans")


def test_an_error_event_shows_message_code_and_request(page: Page) -> None:
    error = {"code": "upstream_timeout", "message": "The model stalled.", "request_id": "r-77", "retryable": True}
    stream(page, {"type": "delta", "text": "Half"}, {"type": "error", **error})
    ask(page)
    answered(page, "failed")
    expect(page.get_by_role("alert")).to_contain_text("The model stalled.")
    expect(page.get_by_role("alert")).to_contain_text("upstream_timeout · request r-77")


def test_a_proxys_error_page_is_not_shown(page: Page, watch: Watch) -> None:
    page.route("**/rag-query", lambda route: route.fulfill(status=502, content_type="text/html", body="<h1>nginx</h1>"))
    ask(page)
    answered(page, "failed")
    expect(page.get_by_role("alert")).to_contain_text("HTTP 502")
    expect(page.get_by_role("alert")).not_to_contain_text("nginx")
    watch.refusals = 1


def test_overload_says_when_to_try_again(page: Page, watch: Watch) -> None:
    body = {"error": {"code": "overloaded", "message": "All places are taken.", "request_id": "r-1"}}
    page.route("**/rag-query", lambda route: route.fulfill(status=429, json=body, headers={"Retry-After": "7"}))
    ask(page)
    answered(page, "failed")
    expect(page.get_by_role("alert")).to_contain_text("All places are taken. Try again in 7 s.")
    watch.refusals = 1


def test_no_sources_is_shown_as_such(page: Page) -> None:
    nothing = {"type": "delta", "text": "I could not find anything about this in the documents."}
    stream(page, {"type": "sources", "sources": []}, nothing, {**DONE, "finish_reason": "no_sources"})
    ask(page)
    answered(page)
    expect(page.locator(".turn")).to_contain_text("Nothing relevant was found, so the model was not asked.")
    expect(page.locator(".sources")).to_be_hidden()


def test_finished_parts_are_announced_once(page: Page) -> None:
    stream(page, {"type": "delta", "text": "First part.\n\nSecond [1] part."}, DONE)
    ask(page)
    answered(page)
    region = page.get_by_role("log")
    expect(region).to_have_attribute("aria-live", "polite")
    said = region.locator("p").all_text_contents()
    assert said[-3:] == ["First part.", "Second  part.", "Answer complete."]


def test_the_copy_holds_the_citations(context: BrowserContext, page: Page) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    stream(page, {"type": "delta", "text": TEXT}, citation(*CLAIMS[0]), citation(*CLAIMS[4]), DONE)
    ask(page)
    answered(page)
    page.get_by_role("button", name="Copy with citations").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == (
        f"{TEXT} [5]\n\nCitations, as checked by the service:\n"
        "[1] verified: file1.pdf, p. 3: “Quote 1”\n[5] verified: file5.pdf, p. 3: “Quote 5”\n"
    )


def test_a_key_is_asked_for_and_sent(context: BrowserContext, page_url: str, watch: Watch) -> None:
    keys: list[str | None] = []

    def guard(route: Route) -> None:
        keys.append(route.request.headers.get("authorization"))
        if keys[-1] == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": {"code": "unauthorized", "message": "No key, or a wrong one."}})

    page = context.new_page()
    watch.follow(page)
    page.route("**/info", guard)
    page.goto(page_url)
    page.get_by_label("API key of this service").fill("secret")
    page.keyboard.press("Enter")
    expect(page.locator("#served")).not_to_be_empty()
    expect(page.get_by_label("API key of this service")).to_be_hidden()
    assert keys == [None, "Bearer secret"]
    watch.refusals = 1


def test_the_notice_of_the_demo_model_stands_on_top(context: BrowserContext, page_url: str, watch: Watch) -> None:
    notice = "A toy model <b>answers</b>."
    info = {"collection": "c", "model": "m", "demo": True, "notice": notice, "documents": 0, "version": "0"}
    page = context.new_page()
    watch.follow(page)
    page.route("**/info", lambda route: route.fulfill(json=info))
    page.goto(page_url)
    expect(page.get_by_role("note")).to_have_text(notice)
    expect(page.get_by_text("No documents are indexed yet.")).to_be_visible()


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    wide = f"{'w' * 200} `{'c' * 200}`\n\n```\n{'x' * 300}\n```\n\n| a | b |\n| - | - |\n| {'y' * 90} | z |"
    stream(page, {"type": "sources", "sources": [source(1)]}, {"type": "delta", "text": wide}, DONE)
    ask(page)
    answered(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_follows_an_answer_that_is_longer_than_the_screen(page: Page) -> None:
    page.set_viewport_size({"width": 1000, "height": 500})
    long = "\n\n".join(f"Paragraph {i}." for i in range(60))
    stream(page, {"type": "delta", "text": long}, DONE)
    ask(page)
    answered(page)
    expect(page.get_by_text("Paragraph 59.").first).to_be_in_viewport()
