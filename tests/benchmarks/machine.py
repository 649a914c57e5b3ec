"""What figures are worth nothing without: the machine, its load, the Python, the date and the commit.

In: nothing. Out: the head of a report. Must not: measure.
"""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.ingest_cli import ROOT


def circumstances() -> dict[str, Any]:
    """Of a run that has just ended: the load average is its own."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), platform.machine())
    return {
        "machine": {"cores": os.cpu_count(), "cpu": model, "load": os.getloadavg()},
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain") else ""),
    }


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
