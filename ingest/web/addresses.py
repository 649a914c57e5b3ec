"""Which IP addresses may be reached: public ones, and with `allow_private` those of private networks and this machine.

In: addresses. Out: a reason against each, or None. Must not: look anything up.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address, which is reached
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# Tunnels carry an IPv4 address of the sender's choice inside (Teredo, 6to4); the others are for examples and tests.
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24")
)
_PRIVATE: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "fc00::/7", "::1/128")
)
# Where clouds hand out keys to whoever asks. 169.254.169.254 is link-local, and so never allowed anyway.
_METADATA = frozenset(("fd00:ec2::254", "100.100.100.200", "192.0.0.192"))


def is_public(address: Address) -> bool:
    """Whether anybody on the internet means the same machine by it."""
    address = unwrapped(address)
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def objection(addresses: Sequence[Address], *, allow_private: bool) -> str | None:
    """What speaks against reaching a host that has these addresses. One that is refused speaks against all: a name that
    mixes public and private ones is an attempt."""
    for address in addresses:
        if is_public(address):
            continue
        real = unwrapped(address)
        if str(real) in _METADATA or not any(real in network for network in _PRIVATE):
            return f"{address} is no public address ({_kind(real)})"
        if not allow_private:
            return (
                f"{address} is no public address ({_kind(real)}); RAG_WEB__ALLOW_PRIVATE=true lets in private networks"
            )
    return None


def _kind(address: Address) -> str:
    if str(address) in _METADATA or address.is_link_local:
        return "link-local, where clouds keep their keys"
    if address.is_loopback:
        return "this machine itself"
    if any(address in network for network in _PRIVATE):
        return "a private network"
    return "multicast" if address.is_multicast else "reserved"
