"""Presentations: each slide a page with its title as heading, then its text in reading order and the speaker's notes.

In: the bytes of a .pptx. Out: parts. Must not: read hidden slides or what every slide repeats as text; give up the
slides that can be read for one that cannot; leave anything out without saying so.
"""

from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

import pptx
from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.parts import about, heading, note, part, unread
from ingest.loaders.pptx_package import mended
from ingest.loaders.pptx_shapes import frame_text, slide_pieces
from ingest.loaders.rows import flat
from rag_service.errors import LoadFailed

_OLE_START = b"\xd0\xcf\x11\xe0"  # PowerPoint packs an encrypted presentation into an old compound file
_DEFAULT_HEIGHT = 6_858_000  # EMU, of a slide of 7.5 inches


class PptxLoader(BaseBlobParser):
    """Raises LoadFailed when the file is encrypted, or none of its slides can be read."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with blob.as_bytes_io() as file:
            if file.read(4) == _OLE_START:
                raise LoadFailed("encrypted, needs a password, or an old .ppt file")
            file.seek(0)
            presentation = _opened(file)
        yield from _described(presentation)
        omitted: Counter[str] = Counter()
        broken: list[int] = []
        only_pictures: list[int] = []
        slides = presentation.element.sldIdLst.sldId_lst if presentation.element.sldIdLst is not None else []
        height = presentation.slide_height or _DEFAULT_HEIGHT
        for page, listed in enumerate(slides, start=1):
            try:
                slide = presentation.part.related_slide(listed.rId)  # `presentation.slides` fails if one is missing
                if slide.element.get("show") in {"0", "false"}:
                    omitted["hidden slides"] += 1
                    continue
                parts = list(_slide(slide, page, height, omitted))
                omitted["slides' comments"] += _comments(slide)
            except Exception:  # noqa: BLE001 - python-pptx raises all sorts on a broken slide; the others are read
                broken.append(page)
                continue
            if not any(made.page_content.strip() for made in parts) and _has_pictures(slide):
                only_pictures.append(page)
            yield from parts
        if broken and len(broken) == len(slides):
            raise LoadFailed("not a PPTX: broken file (none of its slides can be read)")
        yield from _notes(broken, only_pictures, omitted, len(slides))


def _opened(file: IO[bytes]) -> Any:
    try:
        return pptx.Presentation(file)
    except Exception:  # noqa: BLE001 - whatever it did not like may be no slide at all
        file.seek(0)
    try:
        return pptx.Presentation(mended(file))
    except Exception as error:
        raise LoadFailed("not a PPTX: broken file (parts missing or unreadable)") from error


def _described(presentation: Any) -> Iterator[Document]:
    properties = presentation.core_properties
    yield about({"title": properties.title or None, "author": properties.author or None, "created": properties.created})


def _slide(slide: Any, page: int, height: int, omitted: Counter[str]) -> Iterator[Document]:
    """A slide without a title gets its number as a heading without text, since it does not belong to the one before."""
    title = slide.shapes.title
    words = flat(title.text_frame.text) if title is not None else ""
    pieces = list(slide_pieces(slide, height, omitted))
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None and frame_text(frame):
        pieces.append(("prose", f"Notes: {frame_text(frame)}\n\n"))
    if words:
        yield heading(f"{words}\n\n", 1, page=page)
    elif pieces:
        yield heading("", 1, title=f"Slide {page}", page=page)
    for kind, text in pieces:
        yield part(text, kind, page=page)


def _has_pictures(slide: Any) -> bool:
    return any(element.tag.endswith("}pic") for element in slide.element.iter("{*}pic"))


def _comments(slide: Any) -> int:
    return any(relation.reltype.endswith("/comments") for relation in slide.part.rels.values())


def _notes(broken: list[int], only_pictures: list[int], omitted: Counter[str], slides: int) -> Iterator[Document]:
    if broken:
        yield note(f"could not be read: slides {', '.join(map(str, broken))} of {slides}")
    if only_pictures:
        yield unread(len(only_pictures))
        yield note(f"{len(only_pictures)} of {slides} slides have only pictures")
    if left_out := [f"{what} ({count})" for what, count in omitted.items() if count]:
        yield note("left out: " + ", ".join(left_out))
