"""Whether a passage supports a claim, judged by words, numbers, units, names and negation."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.verification import Claim, Passage
from rag_service.wording import number_value, stem, words

TEXT = (
    "The Panthers gave up just 308 points, ranking sixth in the league, while intercepting 24 passes.\n"
    "Kawann Short led the team in sacks with 11. Mario Addison added five sacks.\n"
    "The tank holds 1,500 litres at -5 °C, and refilling costs $2.5 million. It is not made of steel."
)


def verdict(claim, text=TEXT):
    return Passage(text).support(Claim(claim)).verdict


@pytest.mark.parametrize(
    "claim",
    [
        "the panthers GAVE up just “308” points",
        "Ranking sixth in the league, the Panthers gave up 308 points.",
        "Kawann Short led the team in sacks with 11",
        "Mario Addison added 5 sacks",
        "The tank holds 1500 liters",
        "The tank holds 1.500 litres at −5 °C",
        "Refilling costs $2,500,000",
        "The tank isn't made of steel",
    ],
)
def test_what_stands_there_is_verified(claim):
    assert verdict(claim) == "verified"


@pytest.mark.parametrize(
    "claim",
    [
        "The Panthers gave up just 309 points",
        "The Panthers gave up just 24 points, ranking sixth in the league",
        "Kawann Addison led the team in sacks with 11",
        "Smith Short led the team in sacks with 11",
        "Mario Addison added six sacks",
        "The tank holds 1,500 gallons",
        "The tank holds 1,500 litres at 5 °C",
        "Refilling costs $2.5 billion",
        "Refilling costs 2.5 million euros",
        "The Panthers never gave up 308 points",
        "It is made of steel",
    ],
)
def test_a_changed_number_unit_name_or_negation_is_never_verified(claim):
    assert verdict(claim) != "verified"


def test_words_from_far_apart_do_not_add_up():
    filler = " ".join(f"Filler sentence number {n} speaks of nothing." for n in range(20, 30))
    text = f"Pumps are painted green. {filler} Valves close tightly overnight."
    assert verdict("Pumps and valves are painted green and close tightly overnight", text) != "verified"


def test_line_breaks_inside_a_paragraph_do_not_cut_sentences():
    text = (
        "The committee decided after a long debate on that evening that\nevery single member pays forty euros a year."
    )
    support = Passage(text).support(Claim("Members pay 40 euros a year, the committee decided"))
    assert (support.verdict, support.span.of(text)) == ("verified", text)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("1,000", "1000"), ("1.000", "1000"), ("1 000", "1 000"), ("1\u202f000", "1000"), ("25.50", "25.5"), ("25,5", "25.5"),
        ("1.234,56", "1234.56"), ("1,234.56", "1234.56"), ("0.125", "0.125"), ("007", "7"), ("1.2.3", "1.2.3"), ("٢٥", "25"),
        ("−5", "-5"), ("1'000'000", "1000000"),
    ],
)  # fmt: skip
def test_numbers_meet_in_their_value(raw, value):
    if " " in raw:  # a plain space may divide two numbers, so it joins none
        assert [word.term for word in words(raw)] == ["#1", "#0"]
    else:
        assert number_value(raw) == value


def test_number_words_and_scales():
    assert [word.term for word in words("twenty-five, zwölf, dreiundvierzig, 1.5 million")] == [
        "#25", "", "#12", "#43", "#1500000", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "forms", ["day days", "policy policies", "run running", "Tag Tage Tagen", "employee employees"]
)
def test_forms_of_a_word_share_a_stem(forms):
    assert len({stem(form.lower()) for form in forms.split()}) == 1


@given(st.text(max_size=200), st.text(max_size=60))
def test_spans_lie_in_the_text_and_scores_in_the_unit_range(text, claim):
    support = Passage(text).support(Claim(claim))
    assert 0 <= support.score <= 1
    assert support.span is None or 0 <= support.span.start < support.span.end <= len(text)


@given(st.text(max_size=200))
def test_words_have_exact_offsets_in_order(text):
    found = words(text)
    assert all(word.start < word.end for word in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
