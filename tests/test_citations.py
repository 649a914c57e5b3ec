"""Citations of a streamed answer: which source each sentence rests on, where, and how well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.citations import CitationChecker
from rag_service.events import Citation, CitationCounts, Delta, Source
from rag_service.index.spans import PageStarts, Span

LEAVE = "Every employee has 25 days of annual leave. Unused days expire on 31 March. Part-time staff get a share."
SICK = "Sick pay lasts six weeks. A doctor's note is due on the third day. It is not needed for a single day."
TRAVEL = "Trains are booked in second class. Dr. Weber approves flights over 1,000 euros, but never first class."
OFFICE = "The office in Lisbon opens at 8:30. Visitors sign in at the desk."


def source(n, text, start=1000, pages=PageStarts()):  # frozen
    return Source(n, f"doc{n}", "v1", f"chunk{n}", f"file{n}.pdf", f"file:///{n}", Span(start, start + len(text)), text, 0.9, pages)  # fmt: skip  # noqa: E501


SOURCES = [source(n, text, 1000 * n) for n, text in enumerate((LEAVE, SICK, TRAVEL, OFFICE), 1)]


def check(parts, sources=SOURCES):
    """The answer, its citations and the counts; every promise that holds for all answers is asserted here."""
    checker = CitationChecker(sources)
    events = [event for part in parts for event in checker.feed(part)] + checker.finish()
    answer, citations = "", []
    for event in events:
        if isinstance(event, Delta):
            assert event.text
            answer += event.text
        else:
            assert event.answer.end <= len(answer), "a citation comes after the text it speaks of"
            citations.append(event)
    assert [citation.id for citation in citations] == [f"c{i + 1}" for i in range(len(citations))]
    for citation in citations:
        assert 0 <= citation.score <= 1
        assert (citation.span is None) == (citation.quote is None)
        if citation.span is not None:
            assert citation.source.span.contains(citation.span)
            assert citation.quote == citation.span.shift(-citation.source.span.start).of(citation.source.text) != ""
        if citation.status in ("verified", "misattributed"):
            assert citation.span is not None
        if citation.status == "unsupported":
            assert citation.span is None
    counts = checker.counts
    for status in ("verified", "weak", "misattributed", "unsupported"):
        assert getattr(counts, status) == sum(citation.status == status for citation in citations)
    return answer, citations, counts


def only(parts, sources=SOURCES):
    _, citations, _ = check(parts, sources)
    assert len(citations) == 1
    return citations[0]


def test_br_13_numbers_outside_the_list_are_dropped_and_malformed_ones_resolved():
    text = "A [1]. B [7]. C [0]. D [1,3]. E [1-4]. F [①]. G 【1】. H [source 2]"
    answer, citations, counts = check([text])
    assert answer == "A [1]. B. C. D [1][3]. E [1][2][3][4]. F [1]. G [1]. H [2]"
    assert counts.dropped_markers == 2
    said = [(citation.answer.of(answer), citation.n) for citation in citations]
    cited = [("A", 1), ("D", 1), ("D", 3), ("E", 1), ("E", 2), ("E", 3), ("E", 4), ("F", 1), ("G", 1), ("H", 2)]
    assert said == cited
    assert {citation.source.n for citation in citations} <= {1, 2, 3, 4}
    assert all(citation.status in ("weak", "unsupported") for citation in citations)


def test_br_13_one_source_and_999():
    answer, citations, counts = check(["The sky is green [999]."], SOURCES[:1])
    assert (answer, citations, counts) == ("The sky is green.", [], CitationCounts(dropped_markers=1))


def test_br_14_without_sources_nothing_is_cited():
    answer, citations, counts = check(["France won in 1998 [1]. I know [2]."], [])
    assert (answer, citations) == ("France won in 1998. I know.", [])
    assert counts.dropped_markers == 2


def test_br_24_the_number_in_the_prompt_is_the_source_that_is_cited():
    facts = ["The blue pump holds 40 litres.", "The red pump holds 60 litres.", "The green pump holds 80 litres."]
    sources = [source(n, text) for n, text in enumerate(facts, 1)]
    for n, fact in enumerate(facts, 1):
        citation = only([f"{fact[:-1]} [{n}]."], sources)
        assert (citation.n, citation.source.n, citation.status, citation.quote) == (n, n, "verified", fact[:-1])


def test_the_answers_span_is_the_sentence_without_markers_and_bullets():
    for text, said in [
        ("Leave is 25 days [1].", "Leave is 25 days"),
        ("Leave is 25 days. [1] Next", "Leave is 25 days."),
        ("Leave is 25 days.[1]\nNext", "Leave is 25 days."),
        ("- Leave is 25 days [1]\n", "Leave is 25 days"),
        ("Hello.\n\n  2. Leave is 25 days [1].\n", "Leave is 25 days"),
        ("Hello. Leave is 25 days [1]. Bye.", "Leave is 25 days"),
        ("Leave is 25 days\n[1]", "Leave is 25 days"),
        ("Hello 👩‍👩‍👧! Leave is 25 days [9] [1].", "Leave is 25 days"),
    ]:
        answer, citations, _ = check(text)
        assert [citation.answer.of(answer) for citation in citations] == [said], text
    assert only(["Leave is 25 days [1]."]).answer == Span(0, 16)


def test_a_literal_sentence_is_verified_at_its_exact_place():
    citation = only(["**25 days of  annual leave** [1]."])
    assert (citation.status, citation.score, citation.quote) == ("verified", 1.0, "25 days of annual leave")
    assert citation.span == Span(1000 + LEAVE.index("25"), 1000 + LEAVE.index("25") + 23)


def test_a_reworded_sentence_is_verified_by_its_words():
    citation = only(["Each employee has an annual leave of 25 days [1]."])
    assert citation.status == "verified"
    assert citation.quote == "Every employee has 25 days of annual leave."


def test_the_page_is_that_of_the_passage():
    text = "First page talks of pumps.\nSecond page: valves open at 3 bar.\nThird page talks of pipes."
    starts = PageStarts((500, 500 + text.index("Second"), 500 + text.index("Third")), first=7)
    citation = only(["Valves open at 3 bar [1]."], [source(1, text, 500, starts)])
    assert (citation.status, citation.pages) == ("verified", (8, 8))
    assert only(["Bananas grow in Ecuador [1]."], [source(1, text, 500, starts)]).pages == (7, 9)


@pytest.mark.parametrize(
    ("sentence", "status"),
    [
        ("Every employee has 26 days of annual leave [1].", "weak"),
        ("Every employee has 25 weeks of annual leave [1].", "weak"),
        ("Every employee has no annual leave of 25 days [1].", "weak"),
        ("Managers have no claim whatsoever to a company car [1].", "unsupported"),
        ("Sick pay lasts six weeks [1].", "misattributed"),
        ("Der Urlaub beträgt 25 Tage [1].", "weak"),
        ("Wir haben keine Ahnung davon, was die Firma macht [1].", "weak"),
        ("Yes [1].", "weak"),
    ],
)
def test_statuses(sentence, status):
    assert only([sentence]).status == status


def test_misattributed_names_the_source_that_does_support_it():
    citation = only(["Sick pay lasts six weeks [1]."])
    assert (citation.n, citation.source.n, citation.quote) == (1, 2, "Sick pay lasts six weeks")


def test_each_marker_of_a_sentence_speaks_for_its_own_clause():
    answer, citations, _ = check(["Every employee has 25 days of annual leave [1] and sick pay lasts six weeks [2]."])
    assert [(citation.n, citation.status, citation.answer.of(answer)) for citation in citations] == [
        (1, "verified", "Every employee has 25 days of annual leave"),
        (2, "verified", "and sick pay lasts six weeks"),
    ]


def test_a_sentence_without_a_marker_gets_the_source_that_supports_it():
    answer, citations, _ = check(["# Unused days expire on 31 March\nHello. Unused days expire on 31 March. Is it so?"])
    assert [(citation.n, citation.status) for citation in citations] == [(1, "verified")]
    assert citations[0].answer.of(answer) == "Unused days expire on 31 March."
    assert check(["Days expire. Nobody knows the weather of tomorrow."])[1] == []


def test_code_and_links_are_not_cited():
    text = "```\nUnused days expire on 31 March [1].\n```\nSee [1](http://a.b) and `x[2]`."
    assert check([text])[:2] == (text, [])


def test_abbreviations_decimals_and_initials_end_no_sentence():
    for text in [
        "Dr. Weber approves flights over 1,000 euros [3].",
        "Flights, e.g. over 1,000 euros, Dr. Weber approves [3].",
        "No. 5 is J. R. Weber at 8.30 on 3. Oktober, z. B. Montag [4].",
    ]:
        _, citations, _ = check(text)
        assert [citation.answer.start for citation in citations] == [0], text


def test_german_umlauts_are_compared_as_they_are():
    text = "Für Überstunden gibt es einen Zuschlag von 12,5 % ab der 40. Stunde. Größere Büros erhalten 1.500 Euro."
    sources = [source(1, text)]
    assert (
        only(["Für Überstunden gibt es ab der 40. Stunde einen Zuschlag von 12.5 Prozent [1]."], sources).status
        == "verified"
    )
    assert only(["GRÖSSERE Büros erhalten 1500 € [1]."], sources).status == "verified"
    assert only(["Größere Büros erhalten keine 1.500 Euro [1]."], sources).status == "weak"


def test_chinese_and_arabic_are_verified_by_their_own_words():
    sources = [source(1, "员工每年有25天年假。病假不超过六周。办公室在里斯本。"), source(2, "لكل موظف 25 يوما من الإجازة السنوية. المكتب في لشبونة.")]  # fmt: skip  # noqa: E501
    _, citations, _ = check(
        "员工每年有25天年假[1]。员工每年有25天的年假【1】。病假超过六周[1]。办公室在北京市中心[1]。", sources
    )
    assert [citation.status for citation in citations[:3]] == ["verified", "verified", "weak"]
    assert citations[3].status != "verified"
    assert citations[0].quote == "员工每年有25天年假"
    assert only(["لكل موظف 25 يوما من الإجازة السنوية [2]."], sources).status == "verified"
    assert only(["Each employee has leave [1]."], sources).status == "weak"


def test_br_31_br_47_text_without_brackets_passes_untouched():
    text = "Tab\tand\n\n| a |\n\u2028 👩‍👩‍👧‍👦 🌍 ```\ndata: x\n\n``` ünïcödé 年假。 \n "
    assert check(text)[0] == check([text])[0] == text


FRAGMENTS = st.sampled_from(
    [
        *LEAVE.split(". "), *SICK.split(". "), "Every employee", " has 25 days", "26", " not ", " [1]", "[2]", "[1, 3]",
        "[7]", "【2】", ". ", ".", "\n", "\n\n", "- ", "1. ", "! ", "? ", "。", "…", "`", "```\n", "\\", " ", "(", ")", '"',
        "**", "Dr", " 3. ", "Okt", "ober", " Oktober", " der 40", "e.g", "No", "5", "z", " B", "[", "]", "# ", "| ", "年假",
        "ß", "🌍", "\u2028", "word " * 600,
    ]
)  # fmt: skip
ANSWERS = st.lists(FRAGMENTS, max_size=25).map("".join)


@given(ANSWERS, st.data())
def test_any_split_gives_the_same_events(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert check(parts) == check([text])


@given(
    st.lists(
        st.sampled_from(["Every employee has", " 25", " days", " [1]", ".", " ", "\n", "[7]", " Dr.", " X"]),
        max_size=20,
    )
)
def test_one_character_at_a_time_gives_the_same_events(fragments):
    text = "".join(fragments)
    assert check(text) == check([text])


@given(st.text(max_size=80), st.text(max_size=80))
def test_quotes_are_exact_whatever_the_texts_are(document, said):
    sources = [source(1, document + " " + said), source(2, document)]
    answer, citations, _ = check([f"{said} [1]. {document} [2]."], sources)
    assert all(isinstance(citation, Citation) for citation in citations)
    assert "[1" not in answer or "[1]" in answer or "[1" in said + document


def test_half_a_sentence_at_the_end_of_an_answer_that_was_cut_short_is_not_looked_for():
    def citations(text: str, *, cut_short: bool) -> list[int]:
        checker = CitationChecker(SOURCES)
        events = checker.feed(text) + checker.finish(cut_short=cut_short)
        return [event.n for event in events if isinstance(event, Citation)]

    half = "Trains are booked in second class. Every employee has 25 days of annual"
    assert citations(half, cut_short=True) == [3]
    assert citations(half, cut_short=False) == [3, 1]
    assert citations(f"{half} leave.", cut_short=True) == [3, 1]
    assert citations(f"{half} [1]", cut_short=True) == [3, 1]
