"""The page's pure modules, run in the browser that they are written for. Fixtures as in test_page.py."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page

import rag_service

WEB = Path(rag_service.__file__).parent / "web"
TEXT = "假期 👩‍👩‍👧‍👦 𝒯 🌍 é\u2028"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_br_47_a_stream_reads_the_same_however_it_is_cut(page: Page, line_end: str) -> None:
    lines = [
        ": ping",
        "",
        "event: delta",
        f"data: {TEXT}",
        "id: 1",
        "",
        "data: a",
        "data:b",
        "data",
        "",
        "data: unfinished",
    ]
    read = page.evaluate(
        """async (text) => {
          const {readEvents} = await import("/static/stream.js");
          const bytes = new TextEncoder().encode(text);
          const read = async (pieces) => {
            const events = [];
            const body = new ReadableStream({start(out) { pieces.forEach((p) => out.enqueue(p)); out.close(); }});
            for await (const event of readEvents(body)) events.push(event);
            return JSON.stringify(events);
          };
          const seen = new Set([await read([...bytes].map((byte) => Uint8Array.of(byte)))]);
          for (let at = 0; at <= bytes.length; at += 1) seen.add(await read([bytes.slice(0, at), bytes.slice(at)]));
          return [...seen];
        }""",
        line_end.join(lines),
    )
    assert [json.loads(events) for events in read] == [
        [{"event": "delta", "data": TEXT, "id": "1"}, {"event": "message", "data": "a\nb\n", "id": "1"}]
    ]


def test_offsets_of_code_points_agree_with_the_services(page: Page) -> None:
    spans = [(start, end) for start in range(len(TEXT) + 1) for end in range(start, len(TEXT) + 1)]
    cut = page.evaluate(
        """async ([text, spans]) => {
          const {CodePoints} = await import("/static/codepoints.js");
          const points = new CodePoints(text);
          return spans.map(([start, end]) => points.slice(start, end));
        }""",
        [TEXT, spans],
    )
    assert cut == [TEXT[start:end] for start, end in spans]


def test_a_prefix_of_an_answer_loses_no_word_and_shows_no_half_sign(page: Page) -> None:
    text = (
        "# Head\n\nA **bold `x*y`** b_c_d *it* 2 * 3 [1].\n- one\n  - two\n1) three\n> said\n~~~\n[2] *raw*\n~~~\nlast"
    )
    shown = page.evaluate(
        """async (text) => {
          const {AnswerView} = await import("/static/answer_view.js");
          const view = new AnswerView(() => undefined);
          const shown = [];
          for (let at = 0; at <= text.length; at += 1) {
            view.update(text.slice(0, at), [], at < text.length);
            shown.push(view.node.textContent);
          }
          return shown;
        }""",
        text,
    )
    letters = [[character for character in text[:at] if character.isalnum()] for at in range(len(text) + 1)]
    kept = [[character for character in each if character.isalnum()] for each in shown]
    for expected, found in zip(letters, kept, strict=True):
        # A list's own number is drawn by the browser and not part of the text.
        assert [c for c in found if c != "1"] == [c for c in expected if c != "1"]
    assert shown[-1] == "HeadA bold x*y b_c_d it 2 * 3 [1].onetwothreesaid[2] *raw*last"


@pytest.mark.parametrize("name", sorted(path.name for path in WEB.glob("*.js")))
def test_no_script_can_turn_text_into_markup(name: str) -> None:
    source = (WEB / name).read_text(encoding="utf-8")
    for sink in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "eval(",
        "srcdoc",
        ".style",
    ):
        assert sink not in source


def test_the_page_names_no_other_host_and_no_inline_code() -> None:
    for path in [WEB / "index.html", *WEB.glob("*.css"), *WEB.glob("*.js")]:
        source = path.read_text(encoding="utf-8")
        assert "://" not in source
        assert " style=" not in source
        assert " onclick=" not in source
        assert "<script>" not in source
