"""Rows of a table become lines with the headers beside the values."""

import pytest

from .conftest import LoadBytes, LoadShared


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_br_80_any_delimiter(load_bytes: LoadBytes, delimiter: str) -> None:
    rows = [["Plan", "Price"], ["A", "1.5"], ["B", "2.5"]]
    document = load_bytes("plans.csv", "\n".join(delimiter.join(row) for row in rows).encode())
    assert document.text == "Plan: A; Price: 1.5\nPlan: B; Price: 2.5\n"
    assert [atom.of(document.text) for atom in document.atoms] == document.text.splitlines()


def test_br_80_decimal_commas_do_not_hide_the_semicolons(load_bytes: LoadBytes) -> None:
    assert load_bytes("a.csv", b"a;b\n1,5;2,5\n3,5;4,5\n").text == "a: 1,5; b: 2,5\na: 3,5; b: 4,5\n"


def test_br_80_a_huge_cell_is_read(load_bytes: LoadBytes) -> None:
    huge = "word " * 40_000
    document = load_bytes("huge.csv", f'id,text\n1,"{huge}"\n2,short\n'.encode())
    assert document.text == f"id: 1; text: {huge.strip()}\nid: 2; text: short\n"
    assert len(document.atoms) == 2


def test_br_80_duplicate_and_empty_headers_and_a_mark(load_bytes: LoadBytes) -> None:
    document = load_bytes("odd.csv", b"\xef\xbb\xbfid,price,price,\n1,2,3,4,5\n")
    assert document.text == "id: 1; price (column 2): 2; price (column 3): 3; column 4: 4; column 5: 5\n"


def test_br_80_an_unbalanced_quote_swallows_nothing(load_bytes: LoadBytes) -> None:
    rows = "".join(f"{n},row {n}\n" for n in range(2, 3_000))
    document = load_bytes("quote.csv", f'id,text\n1,"open\n{rows}'.encode())
    assert document.text.splitlines()[0] == "id: 1; text: open"
    assert document.text.splitlines()[-1] == "id: 2999; text: row 2999"
    assert len(document.text.splitlines()) == 2_999
    assert document.notes == ("1 rows with unbalanced quotes were split at every delimiter",)


def test_a_misplaced_quote_and_a_line_break_in_a_cell(load_bytes: LoadBytes) -> None:
    document = load_bytes("q.csv", b'a,b\n"x"y,1\n"two\nlines",2\n5" pipe,3\n')
    assert document.text == 'a: xy; b: 1\na: two lines; b: 2\na: 5" pipe; b: 3\n'
    assert document.notes == ()


def test_br_80_a_hundred_thousand_rows(load_bytes: LoadBytes) -> None:
    document = load_bytes("long.csv", b"n,m\n" + b"".join(b"%d,x\n" % n for n in range(100_000)))
    assert len(document.atoms) == 100_000
    assert document.text.endswith("n: 99999; m: x\n")


def test_one_column_and_header_alone(load_bytes: LoadBytes) -> None:
    assert load_bytes("one.csv", b"name\nAda\nBob\n").text == "name: Ada\nname: Bob\n"
    assert load_bytes("head.csv", b"name,age\n").text == "name; age\n"


def test_br_80_real_files(load_shared: LoadShared) -> None:
    assert load_shared("utf-16.csv").text.splitlines() == [
        "Stanley Cups",
        "Team: Blues; Location: STL; Stanley Cups: 1",
        "Team: Flyers; Location: PHI; Stanley Cups: 2",
        "Team: Maple Leafs; Location: TOR; Stanley Cups: 13",
    ]
    assert "Lorem, ipsum: sed, do; dolor sit: eiusmod; amet: tempor incididunt" in load_shared("semicolons.csv").text
    assert [line.count("A,A") for line in load_shared("escaped-commas.csv").text.splitlines()] == [1, 1]
