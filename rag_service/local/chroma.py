"""The local Chroma: `chroma run` on the index's folder, for when RAG_CHROMA__URL is unset.

In: RAG_HOME. Out: a SharedServer for it. Must not: listen beyond loopback, report to anybody, or open the data in this
process (two processes on one folder damage it, which is why there is a server).
"""

import sys
from pathlib import Path

from rag_service.local.server import ServerSpec, SharedServer

# What the `chroma` command does, without the second that it spends on importing the whole client first.
CHROMA_CLI = "import sys, chromadb_rust_bindings; chromadb_rust_bindings.cli(['chroma', *sys.argv[1:]])"


def chroma_folder(home: Path) -> Path:
    """Where its data is."""
    return home.absolute() / "chroma"


def chroma_server(home: Path) -> SharedServer:
    """The server of `home`, which may not exist yet: data in `home/chroma`, run files in `home/run`."""
    folder = chroma_folder(home)
    spec = ServerSpec(
        name="chroma",
        command=(
            *(sys.executable, "-P", "-c", CHROMA_CLI),
            *("run", "--path", str(folder), "--host", "127.0.0.1", "--port", "{port}"),
        ),
        ready_path="/api/v2/heartbeat",
        start_timeout_s=60.0,
        what="The local Chroma server",
        data=folder / "chroma.sqlite3",
        environment=(
            ("RUST_LOG", "warn"),  # at its default it writes 3 kB for each request
            ("NO_COLOR", "1"),
            ("ANONYMIZED_TELEMETRY", "False"),
        ),
    )
    return SharedServer(spec, home / "run")
