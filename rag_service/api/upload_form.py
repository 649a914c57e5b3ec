"""The form of an upload: files under the names that people know, and what is said of them.

In: a multipart form. Out: checked values. Must not: let a name become a path, or read a file into memory.
"""

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile

from rag_service.errors import InvalidRequest
from rag_service.index.search_sql import IDENTITY, METADATA_KEY
from rag_service.index.settings import COLLECTION_HELP, COLLECTION_RULE
from rag_service.uploads import Received

MAX_FILES = 20
MAX_NAME_CHARS = 1000
MAX_URI_CHARS = 3000
MAX_TITLE_CHARS = 500
MAX_METADATA_PAIRS = 50
MAX_VALUE_CHARS = 1000
FIELDS = ("file", "collection", "title", "metadata")
# Control characters, those that turn the direction of writing (they disguise names), lone surrogates.
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

UPLOAD_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "additionalProperties": False,
                    "properties": {
                        "file": {
                            "type": "array",
                            "maxItems": MAX_FILES,
                            "items": {"type": "string", "contentMediaType": "application/octet-stream"},
                            "description": "One file or several. A file's name is its identity: the same again replaces it.",
                        },
                        "collection": {
                            "type": "string",
                            "description": "A collection that is there. Default: RAG_COLLECTION, made at need.",
                        },
                        "title": {
                            "type": "string",
                            "maxLength": MAX_TITLE_CHARS,
                            "description": "Shown in citations. Default: what the file says of itself, or its name.",
                        },
                        "metadata": {
                            "type": "string",
                            "contentMediaType": "application/json",
                            "description": "A JSON object that `filter` of /rag-query can ask for, the same for all files;"
                            " values are texts, numbers, true, false, or lists of them.",
                            "examples": ['{"team": "hr", "year": 2026}'],
                        },
                    },
                }
            }
        },
    }
}


@dataclass(frozen=True, slots=True)
class UploadForm:
    files: tuple[Received, ...]
    collection: str | None
    title: str | None
    metadata: tuple[tuple[str, str], ...]


def upload_form(form: FormData) -> UploadForm:
    """Raises InvalidRequest that names the field."""
    if unknown := [name for name in form if name not in FIELDS]:
        raise InvalidRequest(f"{shown(unknown[0])}: there is no such field. Fields are {', '.join(FIELDS)}.")
    parts = form.getlist("file")
    if not parts or not all(isinstance(part, UploadFile) for part in parts):
        raise InvalidRequest("file: send one file or more in this field of a multipart/form-data body.")
    files = tuple(Received(base_name(part.filename or ""), part.file) for part in parts if isinstance(part, UploadFile))
    names = [file.name for file in files]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise InvalidRequest(f"file: two files are called {shown(double)!r}; one would replace the other.")
    title = one_text(form, "title")
    if title is not None and len(files) > 1:
        raise InvalidRequest("title: it is for one file; send several files without it, or one by one.")
    return UploadForm(files, collection_of(form), title_of(title), pairs_of(one_text(form, "metadata")))


def base_name(given: str) -> str:
    """What stands after the last folder in a file's name as a browser or a program sent it: words for people. Raises
    InvalidRequest where nothing is left."""
    last = re.split(r"[/\\]", given)[-1]
    name = " ".join(UNPRINTABLE.sub("", unicodedata.normalize("NFC", last)).split())
    if not name.strip(". "):
        raise InvalidRequest("file: it has no name. Send it with one; the name is what the document is known by.")
    if len(name) > MAX_NAME_CHARS or len(quote(name, safe="")) > MAX_URI_CHARS:
        raise InvalidRequest(f"file: its name has {len(name)} characters, which is too long.")
    return name


def one_text(form: FormData, field: str) -> str | None:
    values = form.getlist(field)
    if not values:
        return None
    if len(values) > 1 or not isinstance(values[0], str):
        raise InvalidRequest(f"{field}: send it once, as text.")
    return values[0]


def collection_of(form: FormData) -> str | None:
    name = one_text(form, "collection")
    if name is not None and not COLLECTION_RULE.fullmatch(name):
        raise InvalidRequest(f"collection: a collection's name is {COLLECTION_HELP}.")
    return name


def title_of(given: str | None) -> str | None:
    if given is None:
        return None
    title = " ".join(UNPRINTABLE.sub(" ", unicodedata.normalize("NFC", given)).split())
    if not title or len(title) > MAX_TITLE_CHARS:
        raise InvalidRequest(f"title: write 1 to {MAX_TITLE_CHARS} characters, or leave it out.")
    return title


def pairs_of(given: str | None) -> tuple[tuple[str, str], ...]:
    """The pairs as rag-ingest takes them; a list is several pairs of one key."""
    if given is None or not given.strip():
        return ()
    try:
        found = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("metadata: it is not JSON.") from error
    if not isinstance(found, dict):
        raise InvalidRequest('metadata: write a JSON object, such as {"team": "hr"}.')
    pairs = []
    for key, value in found.items():
        if not METADATA_KEY.fullmatch(key) or key in IDENTITY:
            raise InvalidRequest(
                f"metadata.{shown(key)}: a key has letters, digits, '_', '-' and '.', and is none of"
                f" {', '.join(sorted(IDENTITY))}."
            )
        pairs += [(key, as_text(key, each)) for each in (value if isinstance(value, list) else [value])]
    if len(pairs) > MAX_METADATA_PAIRS:
        raise InvalidRequest(f"metadata: more than {MAX_METADATA_PAIRS} values.")
    return tuple(pairs)


def as_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and math.isfinite(value):
        return json.dumps(value)
    text = UNPRINTABLE.sub(" ", value).strip() if isinstance(value, str) else ""
    if not text or len(text) > MAX_VALUE_CHARS:
        raise InvalidRequest(
            f"metadata.{shown(key)}: a value is a text of 1 to {MAX_VALUE_CHARS} characters, a number, true, false, or a list"
            " of those."
        )
    return text


def shown(name: str) -> str:
    """A caller's own word in a message: short and printable."""
    return UNPRINTABLE.sub("\ufffd", name)[:100]
