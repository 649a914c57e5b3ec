"""What Prometheus asks for and what the dashboard shows is there: in the service, in docker-compose.yml, and on disk.

In: deploy/, docker-compose.yml, and the metrics that the service makes. Out: names that fit. Must not: need Docker.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from rag_service.telemetry import Metrics

ROOT = Path(__file__).parent.parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
BOARD = json.loads((ROOT / "deploy" / "grafana" / "dashboards" / "rag-service.json").read_text(encoding="utf-8"))
PROMETHEUS = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text(encoding="utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
METRIC = re.compile(r"\brag_\w+")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


@pytest.fixture(scope="module")
def families() -> list[Metric]:
    found = text_string_to_metric_families(generate_latest(Metrics().registry).decode())
    return [family for family in found if not family.name.endswith("_created")]  # the library's own, of each counter


def mounts(service: str) -> dict[str, str]:
    """Paths in the container to paths here."""
    volumes = [volume for volume in SERVICES[service]["volumes"] if isinstance(volume, dict)]
    assert all(volume["read_only"] for volume in volumes)
    return {volume["target"]: volume["source"] for volume in volumes}


def test_every_metric_of_the_dashboard_is_one_of_the_service(families: list[Metric]) -> None:
    there = {family.name + suffix for family in families for suffix in SUFFIXES[family.type]}
    asked = {name for query in QUERIES for name in METRIC.findall(query)}
    assert asked
    assert asked <= there


def test_every_metric_of_the_service_is_on_the_dashboard(families: list[Metric]) -> None:
    asked = " ".join(QUERIES)
    assert [family.name for family in families if family.name not in asked] == []


def test_every_label_of_the_dashboard_is_one_of_its_metric(families: list[Metric]) -> None:
    labels = {family.name: {name for sample in family.samples for name in sample.labels} for family in families}
    labels["rag_errors"] = {"code"}  # has no series before the first error
    asked = 0
    for query in QUERIES:
        metric = next(name for name in labels if name in query)
        grouped = re.search(r"by \(([^)]*)\)", query)
        used = {*(grouped[1].split(", ") if grouped else ()), *re.findall(r"\{(\w+)=", query)}
        assert used <= labels[metric], query
        asked += len(used)
    assert asked


def test_every_panel_says_what_it_shows_and_overlaps_no_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        assert panel["title"]
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert all(panel["description"] for panel in PANELS)
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_the_dashboard_reads_the_prometheus_that_is_provisioned() -> None:
    provisioned = ROOT / "deploy" / "grafana" / "provisioning"
    source = yaml.safe_load((provisioned / "datasources" / "prometheus.yml").read_text())["datasources"][0]
    asked = {panel["datasource"]["uid"] for panel in PANELS}
    asked |= {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]}
    assert asked == {source["uid"]}
    assert source["url"] == "http://prometheus:9090"
    provider = yaml.safe_load((provisioned / "dashboards" / "rag-service.yml").read_text())["providers"][0]
    folder = provider["options"]["path"]
    assert mounts("grafana")[folder] == "./deploy/grafana/dashboards"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (ROOT / mounts("grafana")[folder] / Path(home).relative_to(folder)).is_file()


@pytest.mark.parametrize("service", ["prometheus", "grafana"])
def test_what_is_mounted_is_here(service: str) -> None:
    for source in mounts(service).values():
        assert (ROOT / source).exists()


def named_targets(job: dict[str, Any]) -> list[tuple[str, int]]:
    static = [target.rsplit(":", 1) for group in job.get("static_configs", []) for target in group["targets"]]
    by_name = [(name, group["port"]) for group in job.get("dns_sd_configs", []) for name in group["names"]]
    return [(name, int(port)) for name, port in (*static, *by_name)]


def test_prometheus_asks_services_that_are_there_over_a_network_that_both_are_in() -> None:
    asked = [target for job in PROMETHEUS["scrape_configs"] for target in named_targets(job)]
    assert ("service", 8000) in asked
    for name, _ in asked:
        assert set(SERVICES[name]["networks"]) & set(SERVICES["prometheus"]["networks"]), name
    router = SERVICES["router"]["command"]
    assert ("router", int(next(word for word in router if "--prometheus-port" in word).split("=")[1])) in asked


def test_br_05_prometheus_sends_the_callers_key_from_a_secret_that_only_it_is_given() -> None:
    job = next(job for job in PROMETHEUS["scrape_configs"] if job["job_name"] == "rag-service")
    secret = SERVICES["prometheus"]["secrets"][0]
    assert job["authorization"] == {"credentials_file": f"/run/secrets/{secret['source']}"}
    assert COMPOSE["secrets"] == {secret["source"]: {"environment": "RAG_SERVER__API_KEY"}}
    assert secret["mode"] == "0400"
    assert [name for name, service in SERVICES.items() if "secrets" in service] == ["prometheus"]
    assert "RAG_SERVER__API_KEY" not in json.dumps(SERVICES["grafana"])


def test_grafana_lets_everybody_look_and_nobody_log_in() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
