"""GET /documents/{id}: the passage in its place, as a page and as JSON."""

import re
from html import unescape

import httpx2
import pytest

from tests.e2e.corpus import CORPUS, ESCAPE, LIGHTHOUSE, LIGHTHOUSE_QUESTION, PEARS, PEARS_QUESTION
from tests.e2e.routes import refused

AS_JSON = {"accept": "application/json"}


def source_of(client: httpx2.Client, question: str) -> dict[str, object]:
    found: dict[str, object] = client.post("/retrieve", json={"question": question}).json()["sources"][0]
    return found


def test_the_page_marks_the_passage_and_escapes_the_text(client: httpx2.Client) -> None:
    source = source_of(client, LIGHTHOUSE_QUESTION)
    text = client.get(f"/documents/{source['document_id']}", headers=AS_JSON).json()["text"]
    start = text.index(ESCAPE)
    response = client.get(f"/documents/{source['document_id']}", params={"start": start, "end": start + len(ESCAPE)})
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    marked = re.findall(r"<mark[^>]*>(.*?)</mark>", response.text, re.DOTALL)
    assert [unescape(part) for part in marked] == [ESCAPE]
    assert "<source" not in response.text
    assert "lighthouse.txt" in response.text
    assert LIGHTHOUSE in unescape(response.text)
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", response.text)
    for path in re.findall(r'(?:src|href)="([^"]*)"', response.text):
        assert path.startswith("/")
        assert client.get(path).status_code == 200, path


def test_the_url_of_a_source_leads_to_its_passage(client: httpx2.Client) -> None:
    source = source_of(client, PEARS_QUESTION)
    document = client.get(str(source["url"]), headers=AS_JSON).raise_for_status().json()
    span = document["span"]
    assert document["text"] == CORPUS["pears.txt"].rstrip("\n") or PEARS in document["text"]
    assert document["text"][span["start"] - document["offset"] : span["end"] - document["offset"]] == source["text"]
    assert (document["version"], document["title"], document["stale"]) == (source["version"], "pears.txt", False)
    page = client.get(str(source["url"]))
    assert "".join(map(unescape, re.findall(r"<mark[^>]*>(.*?)</mark>", page.text, re.DOTALL))) == source["text"]


def test_a_stale_version_is_told_and_not_marked(client: httpx2.Client) -> None:
    source = source_of(client, PEARS_QUESTION)
    where: dict[str, str | int] = {"start": 0, "end": 5, "version": "an-older-one"}
    document = client.get(f"/documents/{source['document_id']}", params=where, headers=AS_JSON).json()
    assert (document["stale"], document["span"]) == (True, None)
    page = client.get(f"/documents/{source['document_id']}", params=where).text
    assert "<mark" not in page
    assert "has changed" in page


@pytest.mark.parametrize("where", [{"start": 5, "end": 4}, {"start": 0, "end": 10**9}, {"end": -1}, {"start": "x"}])
def test_a_span_outside_of_the_text_is_refused(client: httpx2.Client, where: dict[str, str]) -> None:
    source = source_of(client, PEARS_QUESTION)
    for headers in ({}, AS_JSON):
        refused(
            client.get(f"/documents/{source['document_id']}", params=where, headers=headers), 422, "invalid_request"
        )


@pytest.mark.parametrize("name", ["nothing", "x" * 300, "%2e%2e", "%00", "%ED%A0%80", "<script>alert(1)<script>"])
def test_an_unknown_document_is_not_found(client: httpx2.Client, name: str) -> None:
    response = client.get(f"/documents/{name}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/json"
