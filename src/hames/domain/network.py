"""Which hosts commands may connect to: patterns of names, and the named group of package registries.

A pattern is `host`, `*.host` (every name below it, not the name itself), either with `:port`, or `*` for every public
host. Without a port it stands for the ports 80 and 443. Addresses are never a pattern: what a name leads to is checked
where it is looked up.
"""

from collections.abc import Iterable
from typing import Final

from hames.deferred import pattern
from hames.domain.errors import InvalidCommand
from hames.domain.value import Value

USUAL_PORTS: Final = (80, 443)
REGISTRIES: Final = "@registries"
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    REGISTRIES: (
        *("pypi.org", "files.pythonhosted.org"),
        *("registry.npmjs.org", "registry.yarnpkg.com"),
        *("crates.io", "index.crates.io", "static.crates.io"),
        *("proxy.golang.org", "sum.golang.org"),
        *("rubygems.org", "index.rubygems.org"),
        *("repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org"),
        *("packagist.org", "repo.packagist.org"),
        "api.nuget.org",
        *("deb.debian.org", "security.debian.org", "archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com"),
        "dl-cdn.alpinelinux.org",
    )
}
"""Named groups of hosts. Nothing is allowed before somebody names the group."""

_LABEL = pattern(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = pattern(r"[0-9]+|0x[0-9a-f]*")


class NetworkRules(Value, omit_defaults=True):
    """The hosts that commands may connect to. About any other a person is asked, where somebody can be asked.

    `deny` is stronger than `allow`, than `networkAccess: true` and than a person's answer.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    """Hosts that rules ask about, although they are allowed. Made for a command, and never part of a setting."""


class HostPort(Value):
    """Where a command connects to: a name in lower case, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_patterns(rules: NetworkRules) -> None:
    """Raises `InvalidCommand` for an entry that names no host."""
    for entry in (*rules.allow, *rules.deny):
        if complaint := _complaint(entry):
            raise InvalidCommand(f"network: {entry!r} {complaint}")


def network_rules(allow: Iterable[str], deny: Iterable[str] = ()) -> NetworkRules:
    """Raises `InvalidCommand` for an entry that names no host."""
    rules = NetworkRules(allow=tuple(allow), deny=tuple(deny))
    check_patterns(rules)
    return rules


def is_allowed(rules: NetworkRules, host: str, port: int) -> bool:
    """Whether the rules allow it by name.

    >>> rules = NetworkRules(allow=("*.example.org", "db.test:5432", "@registries"), deny=("x.example.org",))
    >>> [is_allowed(rules, host, 443) for host in ("a.example.org", "example.org", "x.example.org", "pypi.org")]
    [True, False, False, True]
    >>> is_allowed(rules, "db.test", 5432), is_allowed(rules, "db.test", 443), is_allowed(rules, "pypi.org", 8080)
    (True, False, False)
    """
    return not is_denied(rules, host, port) and any(_covers(entry, host, port) for entry in rules.allow)


def is_denied(rules: NetworkRules, host: str, port: int) -> bool:
    """Whether the rules forbid it by name. A `deny` without a port is about every port.

    >>> is_denied(NetworkRules(deny=("evil.test",)), "evil.test", 8443)
    True
    """
    return any(_covers(entry, host, port, usual=None) for entry in rules.deny)


def is_asked_about(rules: NetworkRules, host: str, port: int) -> bool:
    """Whether a person is asked about it, whatever allows it. Like `deny`, about every port.

    >>> is_asked_about(NetworkRules(allow=("a.test",), ask=("a.test",)), "a.test", 8443)
    True
    """
    return any(_covers(entry, host, port, usual=None) for entry in rules.ask)


def is_address(host: str) -> bool:
    """Whether a host is an address in any spelling, and not a name.

    >>> is_address("127.1"), is_address("::1"), is_address("0x7f000001"), is_address("example.org")
    (True, True, True, False)
    """
    return ":" in host or bool(_NUMERIC.fullmatch(host.lower().removesuffix(".").rpartition(".")[2]))


def _covers(entry: str, host: str, port: int, usual: tuple[int, ...] | None = USUAL_PORTS) -> bool:
    """`usual` are the ports of an entry that names none; None: all of them."""
    if entry in GROUPS:
        return any(_covers(one, host, port, usual) for one in GROUPS[entry])
    name, _, number = entry.partition(":")
    if number and number != str(port):
        return False
    if not number and usual is not None and port not in usual:
        return False
    spelled = name.lower().removesuffix(".")
    return name == "*" or host == spelled or (spelled.startswith("*.") and host.endswith(spelled[1:]))


def _complaint(entry: str) -> str:
    if entry.startswith("@"):
        return "" if entry in GROUPS else f"is no group of hosts; the groups are: {', '.join(GROUPS)}"
    if "/" in entry or "@" in entry or not entry.isascii():
        return "is not a host name: write the name alone, such as example.org, *.example.org or example.org:8443"
    name, colon, number = entry.partition(":")
    if colon and not (number.isdigit() and len(number) <= 5 and 0 < int(number) < 65536):
        return "must have a port from 1 to 65535 behind the colon; IPv6 addresses cannot be allowed"
    if name == "*":
        return ""
    name = name.lower().removesuffix(".")
    labels = name.removeprefix("*.").split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        return "is an address: only names can be allowed"
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return "is not a host name; `*` stands only at the beginning, as in *.example.org"
    if name.startswith("*.") and len(labels) < 2:
        return "would cover a whole top-level domain; write `*` for every public host"
    return ""
