"""Jupyter notebooks: the Markdown and the code of the cells, in their order.

In: the bytes of a .ipynb (format 3 or 4). Out: parts. Must not: read outputs (pictures, tables and errors of some past
run), or leave them out without saying so.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.encoding import decode
from ingest.loaders.markdown import markdown_parts
from ingest.loaders.normalise import normalise_text
from ingest.loaders.parts import about, heading, note, part
from rag_service.errors import LoadFailed


class NotebookLoader(BaseBlobParser):
    """Raises LoadFailed when the bytes are no notebook."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        text = decode(blob.as_bytes()).text
        if not text.strip():
            return
        try:
            notebook = json.loads(text, strict=False)
        except (ValueError, RecursionError) as error:
            raise LoadFailed("not a notebook: broken file (no valid JSON)") from error
        cells = list(_cells(notebook))
        if not cells and not (isinstance(notebook, Mapping) and ("cells" in notebook or "worksheets" in notebook)):
            raise LoadFailed("not a notebook: it has no cells")
        yield about({"programming_language": _language(notebook)})
        outputs = 0
        for cell in cells:
            yield from _cell(cell)
            outputs += len(cell["outputs"]) if isinstance(cell.get("outputs"), list) else 0
        if outputs:
            yield note(f"left out: outputs of code cells ({outputs})")


def _cells(notebook: Any) -> Iterator[Mapping[str, Any]]:
    """Format 4 has them at the top, format 3 in worksheets."""
    if isinstance(notebook, Mapping):
        for holder in [notebook, *_listed(notebook.get("worksheets"))]:
            if isinstance(holder, Mapping):
                yield from (cell for cell in _listed(holder.get("cells")) if isinstance(cell, Mapping))


def _cell(cell: Mapping[str, Any]) -> Iterator[Document]:
    source = normalise_text(_joined(cell.get("source", cell.get("input")))).strip("\n")
    if not source.strip():
        return
    match cell.get("cell_type"):
        case "code":
            yield part(f"{source}\n\n", "code")
        case "heading" if isinstance(cell.get("level"), int):  # only in format 3
            yield heading(f"{source}\n\n", max(1, min(cell["level"], 6)))
        case "markdown":
            yield from markdown_parts(f"{source}\n\n")
        case _:
            yield part(f"{source}\n\n")


def _language(notebook: Any) -> str | None:
    metadata = notebook.get("metadata") if isinstance(notebook, Mapping) else None
    kernel = metadata.get("kernelspec") if isinstance(metadata, Mapping) else None
    name = kernel.get("language") if isinstance(kernel, Mapping) else None
    return name if isinstance(name, str) else None


def _joined(source: Any) -> str:
    """The source of a cell: a text, or a list of lines."""
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
