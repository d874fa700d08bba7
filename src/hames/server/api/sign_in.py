"""Signing a browser in without a shell: links and codes that work once, made by somebody who is signed in."""

import re

from starlette.requests import Request
from starlette.responses import Response

from hames.domain.value import Value
from hames.server.guard.gate import SIGN_IN, cookie_name, head, is_signed_in
from hames.server.guard.proxies import BEHIND_PROXY
from hames.server.guard.rate_limit import Bucket
from hames.server.guard.token import CODE_SECONDS, Keyring
from hames.server.http.reply import HttpRefusal, reply
from hames.server.http.request_body import read_json
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.service import Service

COOKIE_SECONDS = 30 * 24 * 3600
TRIES_AT_ONCE = 5
TRIES_PER_SECOND = 1 / 6
WRONG = "this code or token is wrong, was already used, or has expired"
NO_TOKEN = (
    "this server is for this machine only and nobody has to sign in; to use it from other devices, start it with "
    "`hames serve --host 0.0.0.0 --token`"
)

_PREVIEW = re.compile(
    r"bot\b|preview|crawl|spider|facebookexternalhit|whatsapp|skype|embed|slurp|vkshare", re.IGNORECASE
)


class Link(Value, rename="camel"):
    """A way in for one more browser: open `path` there, or type `code` into the sign-in page. Either works once."""

    path: str
    code: str
    expires_in_seconds: int
    addresses: tuple[str, ...]
    """Where other devices may reach this server, as far as it knows; the likeliest first."""


class Nothing(Value):
    pass


class Code(Value):
    code: str


class SignedIn(Value):
    ok: bool = True


class SignInApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        # For everybody together: who asks cannot be told apart behind a proxy. A link is not held up by it.
        self._tries = Bucket(service.engine.clock, rate=TRIES_PER_SECOND, burst=TRIES_AT_ONCE)

    def endpoints(self) -> list[Endpoint]:
        return [
            endpoint("POST /links", self.link, needs="driver", body=Nothing, answer=Link, code=201),
            endpoint(f"POST {SIGN_IN}", self.sign_in, needs="nothing", body=Code, answer=SignedIn),
        ]

    async def link(self, request: Request) -> Response:
        """A link and a code, one of which signs in one more browser, with the same role."""
        await read_json(request, Nothing)
        principal = principal_of(request)
        name = principal.access.actor.name if principal.access.role != "owner" else ""
        made = await self._keyring().make_invitation(name)
        return reply(
            Link(
                path=f"/?token={made.word}",
                code=f"{made.code[:4]}-{made.code[4:]}",
                expires_in_seconds=round(CODE_SECONDS),
                addresses=self._service.addresses(),
            ),
            201,
        )

    async def sign_in(self, request: Request) -> Response:
        """Sign this browser in with a code, or with a token typed in its place; the answer sets a cookie."""
        keyring = self._keyring()
        given = await read_json(request, Code)
        if not self._tries.take():
            raise HttpRefusal(429, "too many tries; wait a moment and try again", "UsageLimitExceeded")
        cookie = keyring.take_token(given.code) or await keyring.use_code(given.code)
        if cookie is None:
            raise HttpRefusal(401, WRONG, "Unauthorized")
        answer = reply(SignedIn())
        set_cookie(answer, self._service, cookie, request)
        return answer

    def _keyring(self) -> Keyring:
        if self._service.keyring is None:
            raise HttpRefusal(404, NO_TOKEN, "Other")
        return self._service.keyring


def set_cookie(answer: Response, service: Service, cookie: str, request: Request) -> None:
    answer.set_cookie(
        cookie_name(service.gate),
        cookie,
        max_age=COOKIE_SECONDS,
        # Without a path the browser takes that of the request, which the proxy may have shortened before we see it.
        path=None if request.scope.get(BEHIND_PROXY) else "/",
        httponly=True,
        secure=request.url.scheme == "https",
        samesite="strict",
    )


def has_signed_in(request: Request, service: Service, keyring: Keyring) -> bool:
    asked = head("http", request.method, request.url.path, request.headers.raw)
    return is_signed_in(asked, service.gate, keyring)


def is_preview(request: Request) -> bool:
    """A chat that looks at a link before anybody opens it, or a browser that fetches ahead: neither may use it up."""
    headers = request.headers
    purpose = headers.get("sec-purpose", "") + headers.get("purpose", "") + headers.get("x-moz", "")
    ahead = "prefetch" in purpose or "prerender" in purpose or "preview" in purpose
    return request.method == "HEAD" or ahead or _PREVIEW.search(headers.get("user-agent", "")) is not None
