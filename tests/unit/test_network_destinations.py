"""Which destinations are public, in every spelling: pure functions, no socket."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.sandbox.walls.network.destinations import (
    Destination,
    Malformed,
    address_refusal,
    any_public_host,
    parse_authority,
    parse_host,
)

NOT_PUBLIC = {
    "an address of this machine": ["127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "::", "::1"],
    "a private address": [
        *("10.0.0.5", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("100.64.0.1", "100.127.255.255", "fc00::1", "fd12:3456::1", "fec0::1", "::ffff:10.0.0.5"),
        *("64:ff9b::10.0.0.5", "64:ff9b::c0a8:101"),
    ],
    "a link-local address": ["169.254.0.1", "169.254.170.2", "fe80::1", "febf::1", "fe80::1%eth0"],
    "a cloud metadata address": [
        *("169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"),
        *("::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe"),
    ],
    "a multicast address": ["224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1"],
    "a reserved address": [
        *("192.0.0.1", "192.0.2.2", "192.88.99.1", "198.18.0.1", "198.51.100.7", "203.0.113.80", "240.0.0.1"),
        *("255.255.255.255", "2001:db8::1", "2001:2::1", "2001:10::1", "3fff::1", "100::1", "5f00::1", "4000::1"),
        *("::127.0.0.1", "::a9fe:a9fe"),
    ],
    "an address that leads into a tunnel": ["2002:7f00:1::", "2001:0:4136:e378::1", "64:ff9b:1::1"],
}


@pytest.mark.parametrize(("why", "text"), [(why, text) for why, texts in NOT_PUBLIC.items() for text in texts])
def test_an_address_that_is_not_public_is_refused_with_its_kind(why: str, text: str) -> None:
    assert address_refusal(ipaddress.ip_address(text)) == why


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1",
        "8.8.8.8",
        "172.15.0.1",
        "172.32.0.1",
        "192.167.1.1",
        "100.63.0.1",
        "100.128.0.1",
        "169.253.1.1",
        "2606:4700::1111",
        "2a00:1450::1",
        "2001:4860:4860::8888",
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
    ],
)
def test_public_addresses_are_not(text: str) -> None:
    assert address_refusal(ipaddress.ip_address(text)) == ""


@given(st.integers(0, 2**32 - 1))
def test_what_python_calls_private_is_never_public_here(number: int) -> None:
    address = ipaddress.IPv4Address(number)
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert address_refusal(address)
        for inside in (f"::ffff:{address}", f"64:ff9b::{address}"):
            assert address_refusal(ipaddress.ip_address(inside))


@given(st.integers(0, 2**128 - 1))
def test_what_python_calls_private_is_never_public_here_in_ipv6(number: int) -> None:
    address = ipaddress.IPv6Address(number)
    if address.is_private or address.is_multicast or address.is_link_local or address.is_site_local:
        assert address_refusal(address)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("example.org:443", "example.org:443"),
        ("Example.ORG.:80", "example.org:80"),
        ("xn--bcher-kva.example:443", "xn--bcher-kva.example:443"),
        ("_dmarc.example.org:80", "_dmarc.example.org:80"),
        ("8.8.8.8:53", "8.8.8.8:53"),
        ("8.8.8.8.:53", "8.8.8.8:53"),
        ("[2606:4700::1111]:443", "[2606:4700::1111]:443"),
        ("[2606:4700:0:0:0:0:0:1111]:443", "[2606:4700::1111]:443"),
        ("[::ffff:8.8.8.8]:443", "8.8.8.8:443"),
        ("[::FFFF:7f00:1]:1", "127.0.0.1:1"),
    ],
)
def test_a_destination_has_one_spelling(text: str, read: str) -> None:
    assert str(parse_authority(text)) == read


@pytest.mark.parametrize(
    "text",
    [
        "127.1:80",
        "127.0.1:80",
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.1:80",
        "0X7F.0.0.1:80",
        "0177.0.0.1:80",
        "017700000001:80",
        "127.0.0.01:80",
        "127.0.0.1.2:80",
        "1.2.3:80",
        "0:80",
        "0x:80",
        "a.0x7f:80",
        "a.1:80",
        "127.0.0.256:80",
        "10.0.0.5/8:80",
        "[127.0.0.1]:80",
        "[::1:80",
        "[::1]x:80",
        "::1:80",
        "[fe80::1%eth0]:80",
        "[fe80::1%25eth0]:80",
        "[::1]80",
        "[]:80",
        "[:]:80",
        "[v1.x]:80",
        ":80",
        ".:80",
        "a..b:80",
        ".a:80",
        "-a:80",
        "a-:80",
        "a b:80",
        "a\tb:80",
        "a\x00b:80",
        "a%2eb:80",
        "%6cocalhost:80",
        "a@b:80",
        "a/b:80",
        "a\\b:80",
        "a#b:80",
        "a?b:80",
        "a*b:80",
        "ａllowed.test:80",
        "①②⑦.⓪.⓪.①:80",
        "127。0。0。1:80",
        "ß.example:80",
        "a:b:80",
        "example.org",
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:+80",
        "example.org: 80",
        "example.org:8O",
        "example.org:٨٠",
        "example.org:80 ",
        "example.org:000080",
        "example.org:-1",
        "a" * 64 + ":80",
        ".".join(["a" * 60] * 5) + ":80",
        "",
    ],
)
def test_what_could_be_read_in_two_ways_is_no_destination(text: str) -> None:
    with pytest.raises(Malformed):
        parse_authority(text)


@given(st.text(max_size=40))
def test_any_text_is_a_destination_or_malformed(text: str) -> None:
    try:
        destination = parse_authority(text, port=80)
    except Malformed:
        return
    assert parse_authority(str(destination)) == destination
    assert parse_host(destination.host) == destination.host
    assert destination.host.isascii()


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("localhost", "is an address of this machine"),
        ("a.localhost", "is an address of this machine"),
        ("localhost.localdomain", "is an address of this machine"),
        ("printer.local", "is a name of a private network"),
        ("metadata.google.internal", "is a name of a private network"),
        ("router.home.arpa", "is a name of a private network"),
        ("10.0.0.5", "is a private address"),
        ("::1", "is an address of this machine"),
        ("example.org", ""),
        ("local.example.org", ""),
        ("notlocalhost", ""),
        ("8.8.8.8", ""),
    ],
)
def test_the_rule_for_network_access_judges_names(host: str, why: str) -> None:
    assert any_public_host(Destination(host=host, port=80)) == why
