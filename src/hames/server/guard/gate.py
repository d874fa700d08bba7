"""The checks of every request and WebSocket: `Host` (DNS rebinding), `Origin` (other sites), content type, token.

The judgement is a pure function of the request's head. A browser obeys anybody's page, so a request must prove that
it does not come from one: the `Host` is ours (or a name was rebound), the `Origin` is ours (or another site asks),
and a body is declared as JSON (or a plain form could have sent it).
"""

import base64
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Literal

from hames.domain.value import Value
from hames.server.guard.token import BEARER_SUBPROTOCOL, Keyring

JSON = frozenset({"application/json"})
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
UPLOADS = "/uploads"
SIGN_IN = "/sign-in"
"""The one thing that somebody without a token may send."""
ACP, MCP, AGUI, V1 = "/acp", "/mcp", "/agui", "/v1"
BODYLESS = frozenset({"/cancel", ACP, MCP})
"""A specification gives these no body (DELETE, at `/acp` and `/mcp`), so they need not say what it is."""
OPEN = ("/healthz", "/readyz", "/assets/", "/t/")
OPEN_FILES = (".svg", ".ico", ".webmanifest", ".md", ".js")
"""Nothing secret is there: no token is asked for the page and the files beside it."""
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Gate(Value):
    """What this server calls its own."""

    port: int
    hosts: frozenset[str]
    """Exactly what a `Host` header may say, in lower case."""
    addresses: bool = False
    """Any IP address with our port will do, too: nobody can make a name of one."""
    origins: frozenset[str] = frozenset()
    """Pages elsewhere that may use this server."""
    cookie: str = ""
    """The name of the sign-in cookie, where it is good at other servers, too; empty: it is made of the port."""


class Head(Value):
    """A request as far as the guard looks."""

    kind: Literal["http", "websocket"]
    method: str
    path: str
    headers: dict[str, tuple[str, ...]]
    """By lower-case name, every value in its order."""

    def one(self, name: str) -> str | None:
        """The value of a header that comes at most once; a second one makes it worthless."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else None

    def has(self, name: str) -> bool:
        return name in self.headers


class GuardRefusal(Value):
    status: int
    message: str
    close: int = 0
    """For a WebSocket that must be told after it was accepted: the close code."""


def head(kind: Literal["http", "websocket"], method: str, path: str, raw: Iterable[tuple[bytes, bytes]]) -> Head:
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in raw:
        key = name.decode("latin-1").lower()
        headers[key] = (*headers.get(key, ()), value.decode("latin-1").strip())
    return Head(kind=kind, method=method, path=path, headers=headers)


def judge(asked: Head, gate: Gate, keyring: Keyring | None) -> GuardRefusal | None:
    return (
        _host(asked, gate)
        or _origin(asked, gate)
        or (None if is_preflight(asked, gate) else _token(asked, gate, keyring) or _content(asked))
    )


def _host(asked: Head, gate: Gate) -> GuardRefusal | None:
    host = asked.one("host")
    if host is None:
        return GuardRefusal(status=400, message="one Host header is needed")
    if not _is_own(host, gate):
        return GuardRefusal(
            status=421, message="the Host header is not a name of this server; add it with --allow-host"
        )
    return None


def _is_own(host: str, gate: Gate) -> bool:
    name, _, port = host.rpartition(":")
    return host.lower() in gate.hosts or (gate.addresses and port == str(gate.port) and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


def _origin(asked: Head, gate: Gate) -> GuardRefusal | None:
    if asked.has("origin"):
        origin, host = asked.one("origin"), asked.one("host")
        if origin in gate.origins:
            return None  # a page that is allowed by name is on another site, and says so
        if origin not in (f"http://{host}", f"https://{host}"):
            return GuardRefusal(status=403, message="requests from other sites are refused")
    if asked.one("sec-fetch-site") in ("cross-site", "same-site"):
        return GuardRefusal(status=403, message="requests from other sites are refused")
    return None


def is_preflight(asked: Head, gate: Gate) -> bool:
    """A browser asks whether a page that is allowed by name may go on."""
    return (
        asked.method == "OPTIONS"
        and asked.one("origin") in gate.origins
        and asked.one("access-control-request-method") is not None
    )


def cookie_name(gate: Gate) -> str:
    """Cookies do not know ports: two servers of one machine must not overwrite each other's."""
    return gate.cookie or f"hames-{gate.port}"


def _token(asked: Head, gate: Gate, keyring: Keyring | None) -> GuardRefusal | None:
    if keyring is None or is_open(asked):
        return None
    if is_signed_in(asked, gate, keyring):
        return None
    return GuardRefusal(status=401, message="a token is needed", close=4401)


def is_open(asked: Head) -> bool:
    """Whether anybody may ask for it: the page, and signing in to it."""
    return _is_page(asked) or _is_sign_in(asked)


def _is_page(asked: Head) -> bool:
    """A page is read: a socket at the same path speaks a protocol, and that is never open."""
    path = asked.path
    open_path = path == "/" or path.startswith(OPEN) or (path.count("/") == 1 and path.endswith(OPEN_FILES))
    return open_path and asked.kind == "http" and asked.method not in CHANGING


def _is_sign_in(asked: Head) -> bool:
    return asked.path == SIGN_IN and asked.kind == "http" and asked.method == "POST"


def is_signed_in(asked: Head, gate: Gate, keyring: Keyring) -> bool:
    """Whether the cookie or the token that comes with a request is the right one."""
    if bearer := bearer_of(asked):
        return keyring.opens(bearer)
    return keyring.is_cookie(cookie_of(asked, gate))


def cookie_of(asked: Head, gate: Gate) -> str:
    return _cookies(asked).get(cookie_name(gate), "")


def bearer_of(asked: Head) -> str:
    """The token that a request carries; empty: none."""
    scheme, _, token = (asked.one("authorization") or "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    for offered in subprotocols(asked):
        if offered.startswith(BEARER_SUBPROTOCOL):
            return _decode_base64url(offered[len(BEARER_SUBPROTOCOL) :])
    return ""


def _decode_base64url(text: str) -> str:
    """Base64url without padding: a subprotocol may hold few characters."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except ValueError:
        return ""


def subprotocols(asked: Head) -> list[str]:
    """What a WebSocket client offers. A browser can send a token nowhere else."""
    return [word.strip() for line in asked.headers.get("sec-websocket-protocol", ()) for word in line.split(",")]


def _cookies(asked: Head) -> Mapping[str, str]:
    pairs = (pair.partition("=") for line in asked.headers.get("cookie", ()) for pair in line.split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _content(asked: Head) -> GuardRefusal | None:
    if asked.kind == "websocket" or asked.method not in CHANGING:
        return None
    wanted = PICTURES if asked.path == UPLOADS else JSON
    bodyless = asked.path in BODYLESS or asked.path.startswith(f"{V1}/responses/")
    if not asked.has("content-type") and bodyless and _is_empty(asked):
        return None
    kind = (asked.one("content-type") or "").partition(";")[0].strip().lower()
    if kind not in wanted:
        return GuardRefusal(status=415, message=f"the content type must be {' or '.join(sorted(wanted))}")
    return None


def _is_empty(asked: Head) -> bool:
    return not asked.has("transfer-encoding") and asked.headers.get("content-length", ("0",)) == ("0",)
