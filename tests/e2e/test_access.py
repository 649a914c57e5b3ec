"""Who may ask, and from where: keys, other sites, security headers."""

import httpx2

from tests.e2e.conftest import KEY, client_of
from tests.e2e.corpus import LEAVE_QUESTION
from tests.e2e.routes import ROUTES, SSE, refused
from tests.support.fake_vllm import FakeVllm
from tests.support.service import Running


def test_br_05_a_key_is_asked_for_everywhere_but_at_what_is_the_same_for_all(
    narrow_service: Running, narrow_client: httpx2.Client, fake: FakeVllm
) -> None:
    with client_of(narrow_service) as stranger:
        for path in ("/", "/health", "/ready", "/favicon.ico", "/static/app.js", "/docs", "/openapi.json"):
            assert stranger.get(path).status_code == 200, path
        for path in (
            "/metrics",
            "/info",
            "/documents/x",
            "/documents",
            "/problems",
            "/jobs",
            "/jobs/x",
            "/nothing",
            "/static",
        ):
            refused(stranger.get(path), 401, "unauthorized")
        refused(stranger.post("/documents", files={"file": ("x.md", b"x")}), 401, "unauthorized")
        refused(stranger.delete("/documents/x"), 401, "unauthorized")
        for route in ROUTES:
            outcome = route.ask(stranger, LEAVE_QUESTION)
            assert (outcome.status, outcome.headers["www-authenticate"]) == (401, "Bearer")
        for given in (
            "",
            "Bearer",
            f"Basic {KEY}",
            f"Bearer {KEY}x",
            f"Bearer {KEY[:-1]}",
            "Bearer \xe9\xff",
        ):
            response = stranger.get("/info", headers={b"authorization": given.encode("latin-1")})
            refused(response, 401, "unauthorized")
    assert fake.requests == []
    assert narrow_client.get("/info", headers={"authorization": f"bearer  {KEY}"}).status_code == 200
    assert SSE.ask(narrow_client, LEAVE_QUESTION).ended == "done"


def test_br_05_other_sites_cannot_make_the_model_work(client: httpx2.Client, fake: FakeVllm) -> None:
    evil = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    preflight = client.options("/rag-query", headers={**evil, "access-control-request-method": "POST"})
    assert "access-control-allow-origin" not in preflight.headers
    as_text = client.post("/rag-query", content=b'{"question": "x"}', headers={"content-type": "text/plain"})
    assert as_text.status_code in (415, 422)
    for path, form in (
        ("/api/llm-request", {"data": '{"messages": [{"role": "user", "content": "x"}]}'}),
        ("/generate", {}),
        ("/documents", {}),
    ):
        refused(client.post(path, data=form, headers=evil), 403, "forbidden")
    assert fake.requests == []
    own = {"origin": str(client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    assert client.post("/generate", json={"prompt": "x"}, headers=own).status_code == 200


def test_br_05_a_named_origin_may_call(narrow_client: httpx2.Client) -> None:
    headers = {"origin": "https://chat.example.org", "sec-fetch-site": "cross-site"}
    preflight = narrow_client.options("/rag-query", headers={**headers, "access-control-request-method": "POST"})
    assert preflight.headers["access-control-allow-origin"] == "https://chat.example.org"
    asked = {"question": LEAVE_QUESTION, "stream": False}
    response = narrow_client.post("/rag-query", json=asked, headers=headers)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "https://chat.example.org"
    stranger = {**headers, "origin": "https://evil.example"}
    response = narrow_client.post("/rag-query", json=asked, headers=stranger)
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


def test_every_answer_has_the_security_headers(client: httpx2.Client) -> None:
    for response in (
        client.get("/"),
        client.get("/health"),
        client.get("/nothing"),
        client.post("/rag-query", json={}),
    ):
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "server" not in response.headers
    assert client.get("/health", headers={"x-request-id": "a\tb" * 40}).headers["x-request-id"] != "a\tb" * 40
