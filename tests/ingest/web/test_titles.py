"""What a page calls itself."""

from pathlib import Path

import pytest

from ingest.web.titles import page_title


@pytest.mark.parametrize(
    ("page", "title"),
    [
        (b"<title>Leave</title>", "Leave"),
        (
            b"\xef\xbb\xbf \n<!DOCTYPE html><HTML><TITLE lang=en>\n Leave &amp;\n <b>sick</b> </TITLE>",
            "Leave & <b>sick</b>",
        ),
        (b"<!-- <title>old</title> --><script>'<title>no</title>'</script><title>new</title>", "new"),
        ("<meta charset=iso-8859-1><title>\u00dcber uns</title>".encode("latin-1"), "\u00dcber uns"),
        (b"<body><svg><title>a picture</title></svg>", None),
        (b"<title>never ends", None),
        (b"<title></title><title>second</title>", None),
        (b"<title>a\x1b[2Jb&#x202e;c</title>", "a\ufffd[2Jb\ufffdc"),
        (b"<title>" + b"x" * 1000 + b"</title>", "x" * 300),
        (b"<titles>no</titles><p>words", None),
        (b"no page <title>x</title>", None),
        (b"", None),
        (b"<!--" * 50_000, None),
        (b"<title " * 30_000, None),
    ],
)
def test_a_page_is_called_by_its_first_title(tmp_path: Path, page: bytes, title: str | None) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(page)
    assert page_title(path, "text/html") == title


def test_only_pages_have_titles(tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes(b"<title>no</title>")
    assert page_title(path, "text/plain") is None
