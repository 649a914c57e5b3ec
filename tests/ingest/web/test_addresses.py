"""BR-43: which addresses may be reached, whatever form they come in."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.web.addresses import is_public, objection

INSIDE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1", "203.0.113.9",
    "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::808:808",
    "2002:7f00:1::", "2002:808:808::1", "2001:0:808:808::1", "100::1",
]  # fmt: skip
OUTSIDE = [
    "8.8.8.8",
    "1.1.1.1",
    "100.63.255.255",
    "100.128.0.1",
    "172.32.0.1",
    "2606:4700:4700::1111",
    "2a00:1450::1",
    "64:ff9b::808:808",
    "::ffff:8.8.8.8",
]


@pytest.mark.parametrize("text", INSIDE)
def test_br_43_inner_addresses_are_not_public(text: str) -> None:
    assert not is_public(ip_address(text))
    assert objection([ip_address("8.8.8.8"), ip_address(text)], allow_private=False), "one speaks against all"


@pytest.mark.parametrize("text", OUTSIDE)
def test_br_43_public_addresses_are(text: str) -> None:
    assert is_public(ip_address(text))
    assert objection([ip_address(text)], allow_private=False) is None


@pytest.mark.parametrize("text", ["127.0.0.1", "10.1.2.3", "192.168.0.9", "100.64.0.1", "::1", "fd12::1"])
def test_br_43_one_s_own_network_can_be_allowed(text: str) -> None:
    assert "RAG_WEB__ALLOW_PRIVATE" in (objection([ip_address(text)], allow_private=False) or "")
    assert objection([ip_address(text)], allow_private=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
        "fe80::1",
        "0.0.0.0",
        "224.0.0.1",
        "::ffff:169.254.169.254",
    ],
)
def test_br_43_the_keys_of_a_cloud_are_never_allowed(text: str) -> None:
    assert objection([ip_address(text)], allow_private=True)


@given(st.integers(0, 2**32 - 1))
def test_br_43_an_ipv4_address_is_judged_alike_inside_an_ipv6_one(number: int) -> None:
    plain = IPv4Address(number)
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        assert is_public(IPv6Address(int(IPv6Address(prefix)) + number)) == is_public(plain)
    assert not is_public(IPv6Address((0x2002 << 112) + (number << 80))), "6to4"


@given(st.ip_addresses())
def test_br_43_public_is_never_wider_than_python_s_own_table(address: IPv4Address | IPv6Address) -> None:
    if is_public(address) and isinstance(address, IPv4Address):
        assert address.is_global
        assert not address.is_private
