"""Of a web page, what a reader sees: words apart, rows whole, nothing hidden, and a note of what was left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents.base import Blob

from ingest.documents import LoadedDocument, assemble
from ingest.loaders.html import HtmlLoader

from .conftest import LoadBytes, LoadShared


def loaded(source: str | bytes) -> LoadedDocument:
    return assemble(HtmlLoader().lazy_parse(Blob.from_data(source)), "text/html", "html/2")


def test_br_56_scripts_and_furniture_are_left_out_and_counted() -> None:
    script = "<script>" + "var secret = 1;" * 14_000 + "</script>"
    document = loaded(
        f'<html><head><title>Leave</title>{script}<style>p{{}}</style></head><body><nav><a href="/">Home</a></nav>'
        f'<h1>Annual leave</h1><p>25 days.</p>{script}<script type="application/ld+json">{{"a":1}}</script>'
        '<div role="navigation">Menu</div><ul class="main-menu"><li><a>Jobs</a></li></ul><footer>Imprint</footer></body></html>'
    )
    assert document.text.split() == ["Annual", "leave", "25", "days."]
    assert [(h.level, h.text) for h in document.headings] == [(1, "Annual leave")]
    assert document.metadata["title"] == "Leave"
    assert document.notes == ("left out: navigation blocks (3), page footers (1), scripts (2)",)


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>X</p>",
        '<p style="display: none">X</p>',
        '<div style="visibility:hidden"><p>X</p></div>',
        '<span aria-hidden="true">X</span>',
        '<p style="color:#fff;background:white">X</p>',
        '<p style="color: white">X</p>',
        '<p style="font-size:0">X</p>',
        "<template><p>X</p></template>",
    ],
)
def test_br_56_hidden_text_is_left_out(hidden: str) -> None:
    document = loaded(f"<body><p>seen</p>{hidden} after</body>")
    assert document.text.split() == ["seen", "after"]
    assert "hidden blocks (1)" in "".join(document.notes) or "template" in hidden


def test_white_text_on_a_dark_ground_is_kept() -> None:
    assert "bright" in loaded('<div style="background:#000"><p style="color:white">bright</p></div>').text


def test_br_56_words_stay_apart_and_whole() -> None:
    source = "<div>Home</div><div>Text</div><p>H<b>el</b>lo<br>you<a>one</a><a>two</a> &amp; &euro;5&nbsp;net</p>"
    text = loaded(source).text
    assert text.split() == ["Home", "Text", "Hello", "youone", "two", "&", "€5", "net"]
    assert "Hello\nyou" in text


def test_br_56_table_cells_keep_their_headers() -> None:
    document = loaded(
        "<table><caption>Prices</caption><tr><th>Plan<th>Month<th>Year</tr>"
        "<tr><td>A<td>1<td rowspan=2>10</tr><tr><td>B<td>2</tr></table><table><tr><td>1</td><td>2</td></tr></table>"
        "<table><tr><th>Class</th><td>Aves</td></tr><tr><td>Order:</td><td>Anseriformes</td></tr></table>"
    )
    assert document.text.split("\n") == [
        *("Prices", "Plan | Month | Year", "Plan: A | Month: 1 | Year: 10", "Plan: B | Month: 2", ""),
        *("1 | 2", "", "Class: Aves", "Order: Anseriformes", "", ""),
    ]
    assert len(document.atoms) == 7


def test_a_layout_table_is_no_table() -> None:
    document = loaded(
        "<table><tr><td><h2>News</h2><p>One.</p></td><td><table><tr><th>X</th><td>y</td></tr></table></td></tr></table>"
    )
    assert document.text.split("\n\n") == ["News", "One.", "X: y", ""]


def test_br_56_preformatted_text_is_kept() -> None:
    document = loaded("<p>Run</p><pre>def f():\n    return 1\n</pre>")
    assert "def f():\n    return 1" in document.text
    assert [atom.of(document.text) for atom in document.atoms] == ["def f():", "    return 1"]


def test_lists_have_their_bullets() -> None:
    assert loaded("<ul><li><p>one</p></li><li>two</ul><p>after</p>").text == "- one\n\n- two\n\nafter\n\n"


def test_br_56_the_declared_charset_is_honoured(load_bytes: LoadBytes) -> None:
    page = '<!DOCTYPE html><html><head><meta charset="gbk"></head><body><p>年假为二十五天</p></body></html>'
    assert load_bytes("leave.html", page.encode("gbk")).text.strip() == "年假为二十五天"
    assert load_bytes("wide.html", page.encode("utf-16")).text.strip() == "年假为二十五天"


def test_deep_nesting_loses_nothing() -> None:
    assert "deep" in loaded("<div>" * 1_500 + "<p>deep</p>").text
    assert loaded("<div>" * 5_000 + "<p>deeper</p>").notes == ("nested too deeply: what stands inside was not read",)


def test_main_is_the_page_where_most_text_is_in_it() -> None:
    document = loaded("<body><div>Subscribe</div><main><h1>T</h1><p>The long main text.</p></main></body>")
    assert "Subscribe" not in document.text
    assert document.notes == ("left out: what stands beside the main text (1)",)
    assert "The long text outside." in loaded("<body><p>The long text outside.</p><main>x</main></body>").text


tags = st.sampled_from(["div", "p", "b", "li", "ul", "table", "tr", "td", "th", "h2", "pre", "a", "br", "section"])
trees = st.recursive(
    st.text("ab <&", min_size=1, max_size=4).map(lambda s: s.replace("&", "&amp;").replace("<", "&lt;")),
    lambda inner: st.builds(lambda tag, kids: f"<{tag}>{''.join(kids)}</{tag}>", tags, st.lists(inner, max_size=3)),
    max_leaves=8,
)


@given(trees)
def test_every_visible_letter_comes_once(source: str) -> None:
    text = loaded(f"<body>{source}</body>").text
    assert text.count("<") == source.count("&lt;")
    assert text.count("&") == source.count("&amp;")


def test_br_56_real_pages(load_shared: LoadShared) -> None:
    scripts = load_shared("page-with-scripts.html")
    assert scripts.text.startswith("Russian Offensive Campaign Assessment, December 13\n\n")
    assert "jQuery" not in scripts.text
    assert "function(" not in scripts.text
    duck = load_shared("encyclopedia-page.html")
    assert "Duck is the common name for numerous species of waterfowl in the family Anatidae. Ducks" in duck.text
    for furniture in ("Afrikaans", "Hidden categories", "Create account", "Privacy policy"):
        assert furniture not in duck.text
    assert (2, "Etymology") in [(h.level, h.text) for h in duck.headings]
    assert "Die schöne Frau hat einen Kaffee" in load_shared("cp1252.html").text
