"""Sheets become pages; their tables keep the headers beside the values, shown as the sheet shows them."""

import io
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents.base import Blob
from openpyxl.worksheet.table import Table
from openpyxl.worksheet.worksheet import Worksheet

from ingest.documents import LoadedDocument
from ingest.loaders.xlsx import XlsxLoader
from ingest.loaders.xlsx_numbers import shown
from ingest.loaders.xlsx_tables import Value, sheet_pieces
from rag_service.errors import LoadFailed

from .conftest import LoadBytes, LoadShared

Book = openpyxl.Workbook
Write = Callable[[Book], object]
Loaded = Callable[[Write], LoadedDocument]


@pytest.fixture
def loaded(load_bytes: LoadBytes) -> Loaded:
    def load_it(write: Write) -> LoadedDocument:
        return load_bytes("book.xlsx", written(write))

    return load_it


def written(write: Write) -> bytes:
    book = Book()
    write(book)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def fill(sheet: Worksheet, *rows: list[object]) -> None:
    for row in rows:
        sheet.append(row)


def lines(document: LoadedDocument) -> list[str]:
    return [line for line in document.text.split("\n") if line]


def test_each_row_has_the_headers_beside_its_values(loaded: Loaded) -> None:
    document = loaded(lambda book: fill(book.active, ["Plan", "Price"], ["A", 3.0], ["B", 0.1 + 0.2]))
    assert lines(document) == ["Sheet", "Plan: A; Price: 3", "Plan: B; Price: 0.3"]
    assert [atom.of(document.text) for atom in document.atoms] == ["Plan: A; Price: 3", "Plan: B; Price: 0.3"]
    assert document.media_type == "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def test_sheets_are_pages_and_headings_and_hidden_ones_are_left_out_and_counted(loaded: Loaded) -> None:
    def write(book: Book) -> None:
        fill(book.active, ["a", "b"], ["first", 1])
        book.active.title = "Prices"
        for name, state in (("Secret", "hidden"), ("Deep", "veryHidden"), ("Costs", "visible")):
            sheet = book.create_sheet(name)
            sheet.sheet_state = state
            fill(sheet, ["a", "b"], [name, 1])

    document = loaded(write)
    assert [(h.text, h.level) for h in document.headings] == [("Prices", 1), ("Costs", 1)]
    assert document.pages.page_at(document.text.index("a: Costs")) == 4
    assert document.pages.page_at(document.text.index("a: first")) == 1
    assert "Secret" not in document.text
    assert "Deep" not in document.text
    assert document.notes == ("left out: hidden sheets (2)",)


def test_hidden_rows_and_columns_are_left_out_and_counted_and_part_no_table(loaded: Loaded) -> None:
    def write(book: Book) -> None:
        rows = [
            ["Plan", "Month", "Purchase", "Margin"],
            ["A", "a1", "a2", "a3"],
            ["secret", "s1", "s2", "s3"],
            ["B", "b1", "b2", "b3"],
        ]
        fill(book.active, *rows)
        book.active.row_dimensions[3].hidden = True
        book.active.column_dimensions["C"].hidden = True

    document = loaded(write)
    assert lines(document)[1:] == ["Plan: A; Month: a1; Margin: a3", "Plan: B; Month: b1; Margin: b3"]
    assert document.notes == ("left out: hidden rows (1), hidden columns (1)",)


@pytest.mark.parametrize("kind", ["filter", "table", "outline"])
def test_rows_that_a_filter_or_an_outline_folds_away_are_read(loaded: Loaded, kind: str) -> None:
    def write(book: Book) -> None:
        sheet = book.active
        fill(sheet, ["Plan", "Month"], ["A", 1], ["B", 2])
        if kind == "filter":
            sheet.auto_filter.ref = "A1:B3"
            sheet.auto_filter.add_filter_column(0, ["A"])
        elif kind == "table":
            table = Table(displayName="T", ref="A1:B3")
            sheet.add_table(table)
            table._initialise_columns()  # noqa: SLF001 - openpyxl does so only on saving, too late for a filter
            table.autoFilter.add_filter_column(0, ["A"])
        else:
            sheet.row_dimensions[3].outlineLevel = 1
        sheet.row_dimensions[3].hidden = True

    document = loaded(write)
    assert lines(document)[1:] == ["Plan: A; Month: 1", "Plan: B; Month: 2"]
    assert document.notes == ()


def test_several_tables_on_a_sheet_each_have_their_own_headers_and_titles(loaded: Loaded) -> None:
    def write(book: Book) -> None:
        fill(
            book.active,
            ["Plans of 2024"],
            ["Plan", "Price", None, "City", "People"],
            ["A", 1, None, "Bonn", 300],
            ["B", 2, None, None, None],
            ["C", 3],
            [],
            ["Contacts"],
            ["Name", "Phone"],
            ["Ada", "555"],
        )

    document = loaded(write)
    assert document.text.split("\n")[2:] == [
        "Plans of 2024",
        "Plan: A; Price: 1",
        "Plan: B; Price: 2",
        "Plan: C; Price: 3",
        "City: Bonn; People: 300",
        "",
        "Contacts",
        "Name: Ada; Phone: 555",
        "",
        "",
    ]
    assert "Contacts" not in [atom.of(document.text) for atom in document.atoms]


def test_a_blank_column_inside_a_table_parts_no_row_from_its_name(loaded: Loaded) -> None:
    rows: tuple[list[object], ...] = (["Item", "Unit", None, "Plan", "Actual"], ["Oil", "l", None, 5, 6])
    assert lines(loaded(lambda book: fill(book.active, *rows)))[1:] == ["Item: Oil; Unit: l; Plan: 5; Actual: 6"]


def test_a_part_without_headers_below_a_blank_row_goes_on_with_those_above(loaded: Loaded) -> None:
    rows: tuple[list[object], ...] = (["Item", "Price"], ["Oil", 5], [], ["Gas", 7], ["Coal", 8])
    assert lines(loaded(lambda book: fill(book.active, *rows)))[1:] == [
        "Item: Oil; Price: 5",
        "Item: Gas; Price: 7",
        "Item: Coal; Price: 8",
    ]


def test_years_name_columns_and_a_form_has_none(loaded: Loaded) -> None:
    def write(book: Book) -> None:
        fill(book.active, ["Item", 2023, 2024], ["Oil", 5, 6], [], ["Name:", "Ada"], ["Age:", 36])

    assert lines(loaded(write))[1:] == ["Item: Oil; 2023: 5; 2024: 6", "Name: Ada", "Age: 36"]


def test_merged_headers_reach_over_their_columns_and_merged_values_over_their_rows(loaded: Loaded) -> None:
    def write(book: Book) -> None:
        sheet = book.active
        fill(sheet, ["Region", "Sales", None], [None, "Plan", "Actual"], ["North", 1, 2], [None, 3, 4], ["South", 5, 6])
        for area in ("A1:A2", "B1:C1", "A3:A4"):
            sheet.merge_cells(area)

    assert lines(loaded(write))[1:] == [
        "Region: North; Sales Plan: 1; Sales Actual: 2",
        "Region: North; Sales Plan: 3; Sales Actual: 4",
        "Region: South; Sales Plan: 5; Sales Actual: 6",
    ]


def test_headers_that_are_missing_or_stand_twice_are_told_apart_by_their_letters(loaded: Loaded) -> None:
    rows: tuple[list[object], ...] = (["id", "price", "price"], ["x", 1, 2, 3])
    assert lines(loaded(lambda book: fill(book.active, *rows)))[1:] == [
        "id: x; price (column B): 1; price (column C): 2; column D: 3"
    ]


def test_dates_are_iso_and_numbers_as_shown(loaded: Loaded) -> None:
    def write(book: Book) -> None:
        sheet = book.active
        fill(sheet, ["day", "moment", "clock", "share", "price", "done"])
        fill(sheet, [date(2024, 5, 1), datetime(2024, 5, 1, 13, 45), time(9, 30), 0.125, 1234.5, True])  # noqa: DTZ001 - sheets know no zones
        sheet["D2"].number_format = "0.0%"
        sheet["E2"].number_format = '#,##0.00 "EUR"'

    assert lines(loaded(write))[1] == (
        "day: 2024-05-01; moment: 2024-05-01 13:45; clock: 09:30; share: 12.5%; price: 1234.50 EUR; done: TRUE"
    )


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (-3.14159, "[$€-407] #,##0.00;[Red]-[$€-407] #,##0.00", "-€ 3.14"),
        (7, "00000", "00007"),
        (1.5, "0.##", "1.5"),
        (2.0, "0.##", "2"),
        (1e21, "General", "1e+21"),
        (1234567, "0.0,", "1234567"),
        (12, "0.0E+00", "12"),
        (0.5, "# ?/?", "0.5"),
        (3, '_-* #,##0.00 "kg"_-', "3.00 kg"),
    ],
)
def test_number_formats(value: float, number_format: str, text: str) -> None:
    assert shown(value, number_format) == text


@given(st.floats(allow_nan=True) | st.integers(), st.text(max_size=40))
def test_any_number_in_any_format_has_a_text_of_one_line(value: float, number_format: str) -> None:
    assert shown(value, number_format).strip()


CELLS = st.dictionaries(st.integers(0, 6), st.text("ab1:", min_size=1, max_size=3), min_size=1)


@given(st.dictionaries(st.integers(1, 30), CELLS))
def test_no_filled_cell_is_lost(sheet: dict[int, dict[int, str]]) -> None:
    rows = [
        (number, {c: Value(f"{text}x{number}.{c}y") for c, text in sorted(row.items())})
        for number, row in sorted(sheet.items())
    ]
    made = "\n".join(line for _, some in sheet_pieces(rows) for line in some)
    assert [value.text for _, row in rows for value in row.values() if value.text not in made] == []


def test_formulas_give_their_stored_values_and_those_without_are_told(loaded: Loaded) -> None:
    document = loaded(lambda book: fill(book.active, ["a", "b"], ["x", "=1+1"], ["y", 3]))
    assert lines(document)[1:] == ["a: x", "a: y; b: 3"]
    assert document.notes == ("1 formulas have no stored value: open the file in a spreadsheet program and save it",)


def test_a_sheet_that_reaches_over_all_its_cells_with_two_of_them_filled(loaded: Loaded) -> None:
    def write(book: Book) -> None:
        book.active.cell(1, 1, "first")
        book.active.cell(1_048_576, 16_384, "last")

    assert lines(loaded(write)) == ["Sheet", "first", "last"]


def test_a_sheet_that_claims_a_size_that_it_has_not(load_bytes: LoadBytes) -> None:
    whole = written(lambda book: fill(book.active, ["a", "b"], ["x", 1]))
    document = load_bytes(
        "claims.xlsx", rewritten(whole, "xl/worksheets/sheet1.xml", b'ref="A1:B2"', b'ref="A1:XFD9999"')
    )
    assert lines(document) == ["Sheet", "a: x; b: 1"]


def test_a_broken_sheet_leaves_the_others(load_bytes: LoadBytes) -> None:
    def write(book: Book) -> None:
        fill(book.active, ["a", "b"], ["x", 1])
        fill(book.create_sheet("Second"), ["a", "b"], ["lost", 1])

    data = rewritten(written(write), "xl/worksheets/sheet2.xml", b"<sheetData>", b"<sheetData><row></sheetData>")
    document = load_bytes("broken.xlsx", data)
    assert "a: x; b: 1" in document.text
    assert document.notes == ("could not be read to their end: sheets Second",)


def test_entities_are_not_resolved() -> None:
    whole = written(lambda book: fill(book.active, ["a", "b"], ["x", 1]))
    dtd = b'<!DOCTYPE w [<!ENTITY e SYSTEM "file:///etc/passwd">]><worksheet '
    data = rewritten(whole, "xl/worksheets/sheet1.xml", b"<worksheet ", dtd)
    data = rewritten(data, "xl/worksheets/sheet1.xml", b"<v>1</v>", b"<v>&e;</v>")
    with pytest.raises(LoadFailed, match="none of its sheets can be read"):
        list(XlsxLoader().lazy_parse(Blob.from_data(data)))


def rewritten(data: bytes, member: str, old: bytes, new: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(file, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == member:
                assert old in content
                content = content.replace(old, new, 1)
            target.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and nothing", b"no spreadsheet", b"\xd0\xcf\x11\xe0" + b"\0" * 600])
def test_what_is_no_workbook_is_one_clear_failure(load_bytes: LoadBytes, data: bytes) -> None:
    with pytest.raises(LoadFailed, match="not a spreadsheet: broken file"):
        load_bytes("book.xlsx", data)


def test_an_encrypted_workbook_says_so(load_bytes: LoadBytes) -> None:
    compound = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le")
    with pytest.raises(LoadFailed, match="encrypted, needs a password"):
        load_bytes("book.xlsx", compound)


def test_a_sheet_in_opendocument_is_told_by_its_content(load_bytes: LoadBytes) -> None:
    names = {"office": "office", "table": "table", "text": "text"}
    spaces = " ".join(f'xmlns:{p}="urn:oasis:names:tc:opendocument:xmlns:{n}:1.0"' for p, n in names.items())
    cells = [["Plan", "Price"], ["A", "9"]]
    rows = "".join(
        "<table:table-row>"
        + "".join(f'<table:table-cell office:value-type="string"><text:p>{c}</text:p></table:table-cell>' for c in row)
        + "</table:table-row>"
        for row in cells
    )
    content = (
        f'<office:document-content {spaces} office:version="1.3"><office:body><office:spreadsheet>'
        f'<table:table table:name="Plans">{rows}</table:table></office:spreadsheet></office:body></office:document-content>'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as package:
        package.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        package.writestr("META-INF/manifest.xml", "<manifest/>")
        package.writestr("content.xml", content)
    assert lines(load_bytes("sheet.bin", file.getvalue())) == ["Plans", "Plan: A; Price: 9"]


def test_a_workbook_is_told_by_its_content(load_bytes: LoadBytes) -> None:
    data = written(lambda book: fill(book.active, ["a", "b"], ["x", 1]))
    assert load_bytes("upload.tmp", data).loader == "xlsx/1"


def test_real_sub_tables(load_shared: LoadShared) -> None:
    document = load_shared("subtables.xlsx")
    assert [heading.text for heading in document.headings] == ["Sheet1"]
    blocks = [block.split("\n") for block in document.text.split("\n\n")[1:] if block.strip()]
    assert blocks[:4] == [
        ["a: c; b: d; column D: e", "column D: - f"],
        ["a", "b: d; c: e"],
        ["a", "b", "c: e; d: f"],
        ["a: c; b: d", "b: 2. e"],
    ]
    assert len(blocks) == 12
    assert document.pages.page_at(len(document.text) - 1) == 1


def test_a_real_workbook_with_nothing_in_it_is_blank(load_shared: LoadShared) -> None:
    document = load_shared("empty.xlsx")
    assert document.text.strip() == ""
    assert document.headings == ()
