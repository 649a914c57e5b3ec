"""A user of a local server, as a process of its own: the tests start it, talk to it by lines, and kill it.

    python user_process.py chroma|demo HOME        prints the address, or "failed: ..."

Lines it reads: `ensure` prints the address again. At the end of its input it releases the server and prints `released`.
"""

import sys
from pathlib import Path

from rag_service.errors import RagError
from rag_service.local.chroma import chroma_server
from rag_service.local.demo_model import demo_model_server


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


kind, home = sys.argv[1:]
server = (chroma_server if kind == "chroma" else demo_model_server)(Path(home))
try:
    say(server.acquire())
    for line in sys.stdin:
        if line.strip() == "ensure":
            say(server.ensure())
    server.release()
    say("released")
except RagError as error:
    say(f"failed: {error.message}")
