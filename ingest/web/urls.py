"""Web addresses in one spelling each, so that one page is one document.

In: an address as a person or a page writes it. Out: its canonical form. Must not: accept what is read in two ways.

Scheme and host are lower-case, the host in ASCII (IDNA, UTS 46), numeric hosts as a.b.c.d, the default port and the
fragment dropped, the path without dot segments and percent-encoded (RFC 3986, section 6.2.2). The query stays as it is, but
for characters that no address may contain.
"""

import re
import socket
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import quote, urljoin, urlsplit

import idna

from ingest.web.refusals import Refusal

MAX_CHARS = 8000
_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")  # "_" is no host name's by the book, and in use
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_USERINFO = re.compile(r"(?<=//)[^/?#\\]*@")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_STRAY = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def canonical_url(text: str) -> str:
    """Raises Refusal, `skipped`, for what is no http(s) address of a host."""
    text = text.strip()
    if _CONTROL.search(text) or len(text) > MAX_CHARS:
        raise _refused(f"not a web address: it has control characters or more than {MAX_CHARS} characters")
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
        text.encode("utf-8")
    except ValueError:
        raise _refused("not a valid web address") from None
    if parts.scheme not in _PORTS:
        raise _refused(f"only http and https addresses are read, not {parts.scheme or 'relative'} ones")
    if "@" in parts.netloc:
        raise _refused("an address with a user name or password is not taken: the index would keep them")
    if not host:
        raise _refused("not a web address: it names no host")
    port = _PORTS[parts.scheme] if port is None else port
    if port < 1024 and port not in _PORTS.values():
        raise _refused(
            f"port {port} belongs to another service than the web: only 80, 443 and ports from 1024 are read"
        )
    shown_port = "" if port == _PORTS[parts.scheme] else f":{port}"
    query = f"?{quote(parts.query, safe=_QUERY)}" if parts.query else ""
    return f"{parts.scheme}://{_host(host)}{shown_port}{_path(parts.path)}{query}"


_QUERY = "!$%&'()*+,;=:@/?-._~[]|"
_PATH = "/%!$&'()*+,;=:@-._~"


def joined(base: str, reference: str) -> str:
    """The canonical address that a page means by a reference (RFC 3986, section 5). Raises Refusal."""
    try:
        return canonical_url(urljoin(base, reference.strip()))
    except ValueError:
        raise _refused("not a valid web address") from None


def netloc(url: str) -> str:
    """Host and port of a canonical address."""
    return urlsplit(url).netloc


def same_site(one: str, other: str) -> bool:
    """Whether two canonical addresses are of one host and port; a leading `www.` makes no other host."""
    return netloc(one).removeprefix("www.") == netloc(other).removeprefix("www.")


def without_password(text: str) -> str:
    """An address that was refused, to show."""
    return _USERINFO.sub("", _CONTROL.sub("\ufffd", text[:MAX_CHARS]))


def _host(host: str) -> str:
    if ":" in host:
        try:
            address = IPv6Address(host)
        except AddressValueError:
            raise _refused("not a web address: its host is no IPv6 address") from None
        if address.scope_id is not None:  # "fe80::1%eth0": a network card of this machine
            raise _refused("not a web address: its host is an address of one network card")
        return f"[{address.compressed}]"
    try:
        name = host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    except UnicodeError:
        raise _refused("not a web address: its host is no name") from None
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # as browsers and C libraries read it: 127.1, 0x7f.1, 2130706433, 0177.0.0.1
        try:
            return socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            raise _refused("not a web address: its host is no IPv4 address") from None
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused("not a web address: its host is no name")
    return name


def _path(path: str) -> str:
    plain = _ESCAPE.sub(_unescaped, _STRAY.sub("%25", path))
    return quote(_without_dots(plain), safe=_PATH)


def _unescaped(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()


def _without_dots(path: str) -> str:
    """RFC 3986, section 5.2.4; an absolute path."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


def _refused(reason: str) -> Refusal:
    return Refusal(reason, "skipped")
