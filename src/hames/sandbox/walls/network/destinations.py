"""Where a command wants to connect to, and whether it may: pure functions of a host, a port and an address.

A host is checked twice: by name before it is looked up, and by address before it is dialled. Names are judged by a
`HostRule`, so that a list of allowed hosts can take the place of `any_public_host`. Addresses are judged by one table,
whatever the rule says.
"""

import ipaddress
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from hames.domain.value import Value

Address = IPv4Address | IPv6Address

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# What the C library would read as an address: `127.1`, `0x7f.1`, `2130706433`, `0177.0.0.1`.
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_NAME = 253

THIS_MACHINE = "an address of this machine"
_PRIVATE = "a private address"
_LINK_LOCAL = "a link-local address"
_METADATA = "a cloud metadata address"
RESERVED = "a reserved address"
_MULTICAST = "a multicast address"
_TUNNEL = "an address that leads into a tunnel"

_NOT_PUBLIC = tuple(
    (ipaddress.ip_network(network), why)
    for why, networks in (
        # 168.63.129.16 is a public address that every Azure machine reaches its host by.
        (_METADATA, "169.254.169.254 100.100.100.200 192.0.0.192 168.63.129.16 fd00:ec2::254 fd20:ce::254"),
        (THIS_MACHINE, "0.0.0.0/8 127.0.0.0/8 ::/127"),
        # 100.64.0.0/10 is shared by the customers of a provider.
        (_PRIVATE, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10"),
        (_LINK_LOCAL, "169.254.0.0/16 fe80::/10"),
        (_MULTICAST, "224.0.0.0/4 ff00::/8"),
        (_TUNNEL, "64:ff9b:1::/48 2001::/32 2002::/16"),
        (RESERVED, "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4"),
        (RESERVED, "2001::/23 2001:db8::/32 3fff::/20"),
    )
    for network in networks.split()
)
"""The first network that an address is in says what is wrong with it."""
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


class Malformed(ValueError):
    """It is no destination. The sentence says why not."""


class Destination(Value):
    """`host` is a name in lower case without the dot at its end, or an address in its usual spelling."""

    host: str
    port: int

    @property
    def address(self) -> Address | None:
        """The address, where the host is one and not a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


HostRule = Callable[[Destination], str]
"""Why a command may not connect there, as the end of a sentence that starts with the destination; empty: it may."""


def any_public_host(destination: Destination) -> str:
    """The rule of `networkAccess: true`. Names that never leave this machine or its network are refused unasked.

    >>> any_public_host(Destination(host="localhost", port=80))
    'is an address of this machine'
    >>> any_public_host(Destination(host="example.org", port=8443))
    ''
    """
    address = destination.address
    if address is not None:
        why = address_refusal(address)
        return f"is {why}" if why else ""
    last = destination.host.rpartition(".")[2]
    if last in ("localhost", "localdomain"):
        return f"is {THIS_MACHINE}"
    if last in ("local", "internal") or destination.host.endswith("home.arpa"):
        return "is a name of a private network"
    return ""


def address_refusal(address: Address) -> str:
    """What is wrong with an address, or nothing when it is public.

    An IPv4 address inside an IPv6 address is judged as itself.

    >>> address_refusal(ipaddress.ip_address("::ffff:10.0.0.5")), address_refusal(ipaddress.ip_address("8.8.8.8"))
    ('a private address', '')
    """
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return _LINK_LOCAL
        address = _embedded(address) or address
    why = next((why for network, why in _NOT_PUBLIC if address in network), "")
    return why or ("" if address.version == 4 or address in _GLOBAL_V6 else RESERVED)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that the packets reach: mapped (`::ffff:1.2.3.4`), or translated on the way (NAT64)."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped


def parse_authority(text: str, *, port: int | None = None) -> Destination:
    """A destination out of `host:port`. Raises `Malformed`.

    `port` is used when none is named. An address must be spelled the usual way: what only some programs read as an
    address would be checked as one thing and dialled as another.

    >>> str(parse_authority("Example.ORG.:443")), str(parse_authority("[::1]", port=80))
    ('example.org:443', '[::1]:80')
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in host or (rest and not rest.startswith(":")):
            raise Malformed("the address in brackets is not an IPv6 address")
        number = rest[1:] if rest else None
    else:
        host, colon, tail = text.partition(":")
        if ":" in tail:
            raise Malformed("an IPv6 address stands in brackets")
        number = tail if colon else None
    if number is None:
        if port is None:
            raise Malformed("the port is missing")
        return Destination(host=parse_host(host), port=port)
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and 0 < int(number) < 65536):
        raise Malformed("the port is not a number from 1 to 65535")
    return Destination(host=parse_host(host), port=int(number))


def parse_host(text: str) -> str:
    """The host in the one spelling we use. Raises `Malformed`."""
    if not text.isascii():
        raise Malformed("the host has letters beyond ASCII; spell it with xn--")
    host = text.lower().removesuffix(".")
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            raise Malformed("the host is not an IPv6 address") from None
        if address.scope_id is not None:
            raise Malformed("the host names a network interface")
        return str(address.ipv4_mapped or address)
    labels = host.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise Malformed("the host is an address in an unusual spelling") from None
    if len(host) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise Malformed("the host is not a name")
    return host
