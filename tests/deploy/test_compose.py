"""docker-compose.yml is a valid Compose file, and keeps what the product promises about containers.

In: the file itself and the Compose specification's JSON schema, as check-jsonschema carries it. Out: what a schema
cannot say: who waits for whom, what is reachable from where, who owns what. Must not: need Docker.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from rag_service.settings import Settings

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
# ${NAME}, ${NAME:-default} and ${NAME:?message}, after "$$", which is how Compose writes a plain dollar.
VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\})")
OURS = ("service", "ingest")


class UnsetVariableError(Exception):
    """Compose refuses to go on: a variable that has no default is not set."""


def interpolated(value: Any, environment: Mapping[str, str]) -> Any:
    """The parsed file with its variables filled in, by Compose's own rules."""
    if isinstance(value, dict):
        return {key: interpolated(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolated(item, environment) for item in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        found = environment.get(match["name"], "")
        if not found and match["kind"] == "?":
            raise UnsetVariableError(f"{match['name']}: {match['rest']}")
        return found or (match["rest"] if match["kind"] == "-" else "")

    return VARIABLE.sub(fill, value)


def compose(**environment: str) -> dict[str, Any]:
    return dict(interpolated(yaml.safe_load(TEXT), {"RAG_SERVER__API_KEY": "k" * 48, **environment}))


@pytest.fixture
def services() -> dict[str, Any]:
    return dict(compose()["services"])


def settings_of(service: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    """What the program in that container reads: its own variables, and no `.env`."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RAG_")]:
        monkeypatch.delenv(name)
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, value)
    return Settings()


def seconds(duration: str) -> float:
    parts = re.findall(r"(\d+)([hms])", duration)
    units = {"h": "hours", "m": "minutes", "s": "seconds"}
    return sum(timedelta(**{units[unit]: int(number)}).total_seconds() for number, unit in parts)


def test_the_file_fits_the_compose_specification() -> None:
    schema = get_builtin_schema("vendor.compose-spec")
    problems = [error.message for error in Draft202012Validator(schema).iter_errors(yaml.safe_load(TEXT))]
    assert problems == []


def test_up_starts_three_services_and_the_others_only_when_asked(services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if "profiles" not in service} == {"vllm", "chroma", "service"}
    profiles = {name: service["profiles"] for name, service in services.items() if "profiles" in service}
    assert profiles == {
        "ingest": ["ingest"],
        "prometheus": ["observe"],
        "grafana": ["observe"],
        "vllm-2": ["replicas"],
        "router": ["replicas"],
    }
    assert services["ingest"]["command"] == ["rag-ingest", "run", "/documents"]
    assert "restart" not in services["ingest"]


def test_every_image_has_an_exact_tag(services: dict[str, Any]) -> None:
    for service in services.values():
        assert re.fullmatch(r"[a-z/-]+:v?\d+\.\d+\.\d+", service["image"])
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert [services[name]["image"] for name in OURS] == [f"rag-service:{version}"] * 2


def test_the_servers_chroma_is_the_clients(services: dict[str, Any]) -> None:
    locked = re.search(
        r"^chromadb==(\S+)", (ROOT / "requirements" / "run.lock").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert locked is not None
    assert services["chroma"]["image"] == f"chromadb/chroma:{locked[1]}"


def test_br_05_nothing_is_open_beyond_loopback_and_a_missing_key_stops_the_start(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {
        "service": ["127.0.0.1:8000:8000"],
        "prometheus": ["127.0.0.1:9090:9090"],
        "grafana": ["127.0.0.1:3000:3000"],
    }
    with pytest.raises(UnsetVariableError, match=r"RAG_SERVER__API_KEY.*\.env"):
        interpolated(yaml.safe_load(TEXT), {})
    with pytest.raises(UnsetVariableError, match="RAG_SERVER__API_KEY"):
        compose(RAG_SERVER__API_KEY="")
    assert "RAG_SERVER__ALLOW_OPEN" not in services["service"]["environment"]


def test_br_51_the_service_starts_after_a_healthy_chroma_and_a_loaded_model(services: dict[str, Any]) -> None:
    waits = {name: service["depends_on"] for name, service in services.items() if "depends_on" in service}
    healthy = {"condition": "service_healthy"}
    assert waits == {
        "service": {"chroma": healthy, "vllm": healthy},
        "ingest": {"chroma": healthy},
        "router": {"vllm": healthy, "vllm-2": healthy},
        "grafana": {"prometheus": healthy},
    }
    assert "/health" in services["vllm"]["healthcheck"]["test"][-1]
    assert "/api/v2/heartbeat" in services["chroma"]["healthcheck"]["test"][-1]
    # A first start downloads 15 GB: at 10 MB/s that is 25 minutes.
    assert seconds(services["vllm"]["healthcheck"]["start_period"]) >= 25 * 60


def test_br_63_the_containers_that_hold_the_index_never_ask_a_model_hub(services: dict[str, Any]) -> None:
    for name in OURS:
        assert services[name]["environment"]["HF_HUB_OFFLINE"] == "1"
    assert services["vllm"]["volumes"] == ["huggingface:/root/.cache/huggingface"]


def test_br_90_data_lies_in_named_volumes_and_ours_run_without_root(services: dict[str, Any]) -> None:
    named = compose()["volumes"]
    for name in ("vllm", "chroma", "service"):
        assert [volume.split(":")[0] in named for volume in services[name]["volumes"]] == [True]
    for name in OURS:
        assert services[name]["user"] == "10001:10001"
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert "rag-home:/data" in services[name]["volumes"]
        assert services[name]["environment"]["RAG_HOME"] == "/data"


def test_br_103_telemetry_is_off_on_both_ends(services: dict[str, Any]) -> None:
    for name in ("chroma", *OURS):
        assert services[name]["environment"]["ANONYMIZED_TELEMETRY"] == "FALSE"
    assert services["vllm"]["environment"]["VLLM_NO_USAGE_STATS"] == "1"
    asks = ("REPORTING_ENABLED", "CHECK_FOR_UPDATES", "CHECK_FOR_PLUGIN_UPDATES")
    assert {services["grafana"]["environment"][f"GF_ANALYTICS_{name}"] for name in asks} == {"false"}


def test_ingest_reads_documents_without_writing_them_and_without_a_way_out(services: dict[str, Any]) -> None:
    documents = next(volume for volume in services["ingest"]["volumes"] if isinstance(volume, dict))
    assert documents["target"] == services["ingest"]["command"][-1]
    assert documents["read_only"] is True
    assert documents["bind"] == {"create_host_path": False}
    assert (ROOT / documents["source"]).is_dir()
    assert services["ingest"]["networks"] == ["index"]
    assert compose()["networks"]["index"] == {"internal": True}


@pytest.mark.parametrize("name", OURS)
def test_every_rag_variable_is_a_real_setting(name: str, services: dict[str, Any]) -> None:
    for variable in services[name]["environment"]:
        if not variable.startswith("RAG_"):
            continue
        section, _, field = variable.removeprefix("RAG_").lower().partition("__")
        known = Settings.model_fields
        assert section in known, variable
        if field:
            assert field in known[section].annotation.model_fields, variable  # type: ignore[union-attr]


def test_the_service_reads_the_settings_it_is_given(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = settings_of(services["service"], monkeypatch, tmp_path)
    assert str(settings.chroma.url) == "http://chroma:8000/"
    assert str(settings.llm.base_url) == "http://vllm:8000/v1"
    assert settings.llm.api_key is None  # an empty variable is no key
    assert settings.home == Path("/data")
    assert settings.server.host == "0.0.0.0"
    assert settings.server.api_key is not None
    assert seconds(services["service"]["stop_grace_period"]) > settings.server.shutdown_grace_s


def test_ingest_and_the_service_mean_the_same_index(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        served = settings_of(services["service"], patch, tmp_path)
    with monkeypatch.context() as patch:
        filled = settings_of(services["ingest"], patch, tmp_path)
    assert (served.home, served.collection, served.chroma, served.embeddings) == (
        filled.home,
        filled.collection,
        filled.chroma,
        filled.embeddings,
    )


def test_one_number_sets_how_many_answers_run_in_the_service_and_in_vllm() -> None:
    changed = compose(VLLM_MAX_NUM_SEQS="200")["services"]
    assert "--max-num-seqs=200" in changed["vllm"]["command"]
    assert changed["service"]["environment"]["RAG_ADMISSION__MAX_RUNNING"] == "200"


def test_vllms_tuning_flags_are_there_and_its_model_is_a_setting() -> None:
    command = compose(VLLM_MODEL="some/model", VLLM_GPUS="2")["services"]["vllm"]["command"]
    assert command[0] == "some/model"
    flags = {flag.split("=")[0] for flag in command[1:]}
    assert flags == {
        "--tensor-parallel-size",
        "--gpu-memory-utilization",
        "--max-model-len",
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--enable-chunked-prefill",
        "--api-server-count",
        "--stream-interval",
    }
