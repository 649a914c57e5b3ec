"""BR-43: nothing inside is reached, by no spelling, name, redirect or second look-up."""

from collections.abc import Callable
from ipaddress import ip_address

import pytest

from ingest.web.addresses import Address
from ingest.web.fetching import Fetched, FetchRefused
from ingest.web.system import System, connect
from tests.ingest.web.site import Page, Site, html, redirect

Refused = Callable[..., FetchRefused]
Fetch = Callable[..., object]
PUBLIC = "93.184.215.14"


class Names:
    """A name server: each host's answers, one after the other, the last one again and again. What was connected to is
    kept, and leads to the test's site."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = {host.replace("_", "."): given for host, given in answers.items()}
        self.asked: list[str] = []
        self.connected: list[str] = []

    def resolve(self, host: str, timeout_s: float) -> list[Address]:
        assert timeout_s > 0
        self.asked.append(host)
        given = self.answers[host]
        return [ip_address(text) for text in (given.pop(0) if len(given) > 1 else given[0]).split()]

    @property
    def system(self) -> System:
        def connected(address: str, port: int, timeout_s: float) -> object:
            self.connected.append(address)
            return connect("127.0.0.1", port, timeout_s)

        return System(resolve=self.resolve, connect=connected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "LOCALHOST.", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]",
     "[::ffff:7f00:1]", "0.0.0.0", "[::]", "１２７．０．０．１"],
)  # fmt: skip
def test_br_43_this_machine_is_not_reached_by_any_spelling(host: str, site: Site, refused: Refused) -> None:
    site.pages["/secret"] = html()
    outcome = refused(f"http://{host}:{site.port}/secret", allow_private=False)
    assert outcome.status == "skipped"
    assert "no public address" in outcome.reason
    assert not outcome.gone
    assert site.requests == []


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "172.16.5.5", "192.168.1.1", "100.64.0.1", "169.254.169.254", "[fd00::1]", "[64:ff9b::a00:1]"]
)
def test_br_43_private_networks_are_not_reached(host: str, refused: Refused) -> None:
    names = Names(**{host.strip("[]").replace(".", "_"): [host.strip("[]")]})
    outcome = refused(f"http://{host}/latest/meta-data/", allow_private=False, system=names.system)
    assert "no public address" in outcome.reason
    assert names.connected == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://127.0.0.1:6379/_INFO", "ftp://example.com/x", "unix:///run/docker.sock"]
)
def test_br_43_only_http_is_spoken(url: str, refused: Refused) -> None:
    outcome = refused(url, allow_private=False)
    assert (outcome.status, outcome.uri) == ("skipped", url)
    assert "only http and https" in outcome.reason


@pytest.mark.parametrize("answer", ["10.0.0.7", f"{PUBLIC} 10.0.0.7", f"{PUBLIC} ::1", "fe80::1", "::ffff:192.168.0.1"])
def test_br_43_a_name_that_means_an_inner_address_is_refused(answer: str, refused: Refused) -> None:
    names = Names(intranet_example=[answer])
    outcome = refused("https://intranet.example/", allow_private=False, system=names.system)
    assert "intranet.example" in outcome.reason
    assert names.connected == []


def test_br_43_a_chain_of_redirects_to_this_machine_ends_before_it(site: Site, refused: Refused) -> None:
    names = Names(docs_example=[PUBLIC], **{"127_0_0_1": ["127.0.0.1"]})
    site.pages = {
        "/a": redirect("/b"),
        "/b": redirect(f"http://docs.example:{site.port}/c", 307),
        "/c": redirect(f"http://127.0.0.1:{site.port}/secret", 308),
        "/secret": html(),
    }
    outcome = refused(f"http://docs.example:{site.port}/a", allow_private=False, system=names.system)
    assert "127.0.0.1 is no public address" in outcome.reason
    assert site.paths == ["/a", "/b", "/c"]
    assert set(names.connected) == {PUBLIC}


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "gopher://x/", "http://user:pw@docs.example/", "http://docs.example:25/", "http://[::1"],
)
def test_br_43_a_redirect_passes_the_same_checks_as_an_address(target: str, site: Site, refused: Refused) -> None:
    site.pages["/a"] = redirect(target)
    assert refused(f"{site.base}/a").status == "skipped"


def test_br_43_a_name_is_looked_up_once_and_that_address_is_reached(site: Site, fetch: Fetch) -> None:
    site.pages["/a"] = html()
    names = Names(rebind_example=[PUBLIC, "127.0.0.1"])
    outcome = fetch(
        f"http://rebind.example:{site.port}/a", allow_private=False, respect_robots=False, system=names.system
    )
    assert isinstance(outcome, Fetched)
    assert names.asked == ["rebind.example"]
    assert names.connected == [PUBLIC]
    assert dict(site.requests[0][1])["host"] == f"rebind.example:{site.port}", "the name is kept"


def test_br_43_a_name_that_turns_inward_is_refused_at_the_next_connection(site: Site, refused: Refused) -> None:
    site.pages["/a"] = Page(b"", 302, {"Location": "/b", "Content-Length": "0"})  # which closes the connection
    site.pages["/b"] = html()
    names = Names(rebind_example=[PUBLIC, "127.0.0.1"])
    outcome = refused(
        f"http://rebind.example:{site.port}/a", allow_private=False, respect_robots=False, system=names.system
    )
    assert "127.0.0.1 is no public address" in outcome.reason
    assert site.paths == ["/a"]


def test_br_43_robots_txt_is_fetched_under_the_same_rules(site: Site, refused: Refused) -> None:
    names = Names(docs_example=[PUBLIC], **{"127_0_0_1": ["127.0.0.1"]})
    site.pages = {"/robots.txt": redirect(f"http://127.0.0.1:{site.port}/secret"), "/secret": html(), "/a": html()}
    assert "127.0.0.1" in refused(f"http://docs.example:{site.port}/a", allow_private=False, system=names.system).reason
    assert site.paths == []


def test_br_43_where_private_networks_are_allowed_no_public_site_leads_into_them(site: Site, refused: Refused) -> None:
    """Redirects from inside to inside stay possible; from outside to inside, a stranger would choose the address."""

    class Outside:
        """A stream that says that it leads to a public address."""

        def __init__(self, port: int) -> None:
            self.inner = connect("127.0.0.1", port, 5.0)

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def get_extra_info(self, info: str) -> object:
            return (PUBLIC, 80) if info == "server_addr" else self.inner.get_extra_info(info)

    def connected(address: str, port: int, timeout_s: float) -> object:
        return Outside(port) if address == PUBLIC else connect(address, port, timeout_s)

    names = Names(docs_example=[PUBLIC], wiki_example=["127.0.0.1"])
    system = System(resolve=names.resolve, connect=connected)  # type: ignore[arg-type]
    site.pages = {"/a": redirect(f"http://wiki.example:{site.port}/secret"), "/secret": html()}
    outcome = refused(f"http://docs.example:{site.port}/a", system=system, respect_robots=False)
    assert "from a public to a private address" in outcome.reason
    assert site.paths == ["/a"]


def test_br_43_private_networks_can_be_allowed(site: Site, fetch: Fetch) -> None:
    site.pages = {"/a": redirect("/b"), "/b": html()}
    assert isinstance(fetch(f"http://localhost:{site.port}/a"), Fetched)


def test_br_43_a_redirect_to_the_cloud_s_keys_is_refused_even_then(site: Site, refused: Refused) -> None:
    site.pages["/keys"] = redirect("http://169.254.169.254/latest/meta-data/")
    assert "169.254.169.254" in refused(f"{site.base}/keys").reason


def test_br_43_no_proxy_of_the_environment_is_used(site: Site, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    site.pages["/a"] = html()
    assert isinstance(fetch(f"{site.base}/a"), Fetched)


def test_a_name_that_nobody_has(refused: Refused) -> None:
    def nobody(host: str, timeout_s: float) -> list[Address]:
        return []

    assert "no host named" in refused("http://nobody.example/", system=System(resolve=nobody)).reason
