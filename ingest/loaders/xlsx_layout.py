"""What of a worksheet's XML the cells do not tell: hidden rows and columns, merged cells, formulas without a value.

In: the package of an .xlsx and the name of a sheet in it. Out: a `Layout`. Must not: hold the sheet; take rows for hidden
that only a filter or a closed outline folds away, since people still count them in.
"""

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from lxml import etree

MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384  # of the format
MAX_MERGES = 100_000
_TAGS = ["{*}row", "{*}col", "{*}mergeCell", "{*}autoFilter", "{*}f"]
_ON = {"1", "true", "on"}


@dataclass(slots=True)
class Layout:
    """Rows count from 1, columns from 0, as in `ingest.loaders.xlsx_tables`."""

    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: set[int] = field(default_factory=set)
    merges: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    formulas_without_value: int = 0


def read_layout(package: zipfile.ZipFile, sheet: str) -> Layout:
    """Raises what zipfile and lxml raise."""
    layout = Layout()
    with package.open(sheet) as file:
        _scan(file, layout)
    for filtered in _filtered_tables(package, sheet):
        layout.hidden_rows.difference_update(filtered)
    return layout


def _scan(file: IO[bytes], layout: Layout) -> None:
    number = 0
    formulas: list[etree._Element] = []
    for _, element in etree.iterparse(file, tag=_TAGS, resolve_entities=False, no_network=True, huge_tree=False):
        match etree.QName(element).localname:
            case "f":
                formulas.append(element)
                continue  # its cell and row are still to be read
            case "row":
                number = int(element.get("r", number + 1))
                folded = element.get("outlineLevel", "0") != "0"
                if element.get("hidden") in _ON and not folded and number <= MAX_ROWS:
                    layout.hidden_rows.add(number)
                layout.formulas_without_value += sum(map(_has_no_value, formulas))
                formulas.clear()
            case "col" if element.get("hidden") in _ON and element.get("outlineLevel", "0") == "0":
                first, last = int(element.get("min", "1")), int(element.get("max", "1"))
                layout.hidden_columns.update(range(first - 1, min(last, MAX_COLUMNS)))
            case "mergeCell" if len(layout.merges) < MAX_MERGES:
                if area := _area(element.get("ref", "")):
                    layout.merges[area[0], area[1]] = (area[2], area[3])
            case "autoFilter":
                layout.hidden_rows.difference_update(_filtered(element))
        _forget(element)


def _has_no_value(formula: etree._Element) -> bool:
    value, cell = formula.getnext(), formula.getparent()
    text_is_empty = value is not None and cell is not None and cell.get("t") == "str"
    return not text_is_empty and (value is None or not value.text)


def _forget(element: etree._Element) -> None:
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _filtered_tables(package: zipfile.ZipFile, sheet: str) -> Iterator[range]:
    """Rows under the filters of the sheet's tables, which are parts of their own."""
    folder, name = posixpath.split(sheet)
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in package.namelist():
        return
    for relation in _parsed(package.read(relations)).iterfind("{*}Relationship"):
        if relation.get("Type", "").endswith("/table"):
            target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
            table = _parsed(package.read(target)) if target in package.namelist() else None
            for found in table.iterfind("{*}autoFilter") if table is not None else ():
                yield _filtered(found)


def _filtered(auto_filter: etree._Element) -> range:
    """The rows below the header that a filter in use may have hidden."""
    area = _area(auto_filter.get("ref", ""))
    in_use = any(len(column) for column in auto_filter.iterfind("{*}filterColumn"))
    return range(area[0] + 1, area[2] + 1) if area and in_use else range(0)


def _parsed(xml: bytes) -> etree._Element:
    return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True))


def _area(reference: str) -> tuple[int, int, int, int] | None:
    """(first row, first column, last row, last column) of A1:B2."""
    corners = [_corner(corner) for corner in reference.replace("$", "").split(":")]
    if len(corners) == 1:
        corners *= 2
    if len(corners) != 2 or corners[0] is None or corners[1] is None:
        return None
    return *corners[0], *corners[1]


def _corner(reference: str) -> tuple[int, int] | None:
    name = reference.rstrip("0123456789")
    row, column = reference[len(name) :], 0
    if not (name.isascii() and name.isalpha() and len(name) <= 3 and 0 < len(row) <= 7):
        return None
    for letter in name.upper():
        column = column * 26 + ord(letter) - ord("A") + 1
    return (int(row), column - 1) if column <= MAX_COLUMNS and 0 < int(row) <= MAX_ROWS else None
