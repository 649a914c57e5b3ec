"""Writes `.env.example` and the README's settings table from the settings models; `--check` fails when they are stale.

In: the settings of the service and of ingest. Out: two files. Must not: hold a description of its own.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ingest.settings import IngestSettings
from rag_service.settings import Settings

ROOT = Path(__file__).parent.parent
ENV_EXAMPLE = ROOT / ".env.example"
README = ROOT / "README.md"
BEGIN, END = "<!-- settings: begin (make docs) -->", "<!-- settings: end -->"


@dataclass(frozen=True)
class Setting:
    name: str
    default: str
    description: str


def settings_of(model: type[BaseModel], prefix: str = "RAG_") -> Iterator[Setting]:
    """Every leaf of a settings model, with its environment name."""
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from settings_of(type(field.default), f"{prefix}{name.upper()}__")
        else:
            yield Setting(f"{prefix}{name.upper()}", shown(field.default), field.description or "")


def shown(default: Any) -> str:
    if default is None or default is PydanticUndefined:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return "[]"
    return f"{default:g}" if isinstance(default, float) else str(default)


def all_settings() -> list[Setting]:
    found = {setting.name: setting for model in (Settings, IngestSettings) for setting in settings_of(model)}
    return list(found.values())


def env_example() -> str:
    lines = [
        "# Every setting, with its default. Copy this file to .env and uncomment what you change (make docs writes it)."
    ]
    for setting in all_settings():
        lines += ["", *wrapped(setting.description), f"# {setting.name}={setting.default}"]
    return "\n".join(lines) + "\n"


def wrapped(text: str, width: int = 110) -> list[str]:
    lines = ["#"]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("#")
        lines[-1] += f" {word}"
    return lines


def table() -> str:
    rows = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for setting in all_settings():
        default = f"`{setting.default}`" if setting.default else "unset"
        rows.append(f"| `{setting.name}` | {default} | {setting.description.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def readme() -> str:
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    check = parser.parse_args().check
    stale = []
    for path, text in ((ENV_EXAMPLE, env_example()), (README, readme())):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if stale:
        print(f"{'stale, run `make docs`' if check else 'written'}: {', '.join(stale)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
