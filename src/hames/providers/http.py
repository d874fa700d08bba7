"""HTTP to a model service: one request out, bytes back. Nothing but `ProviderError` comes out of here.

The client is built off the event loop and kept: importing it and preparing TLS takes a
fifth of a second, which `warm` spends before anybody waits for it.
"""

import socket
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from anyio.lowlevel import EventLoopToken, current_token

from hames.domain.errors import ErrorInfo, Misconfigured, ProviderError
from hames.providers.failures import ServiceInfo, redact, tidy
from hames.providers.retry import Patience

if TYPE_CHECKING:
    import httpx2

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ERROR_BODY_BYTES = 64 * 1024
DRAIN_SECONDS = 0.5
WRITE_SECONDS = 60.0
KEPT_SECONDS = 50.0
KEPT_CONNECTIONS = 32

_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class HttpResponse:
    """A response whose headers are in. `read` until it gives nothing."""

    def __init__(self, response: "httpx2.Response", client: "HttpClient") -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        # Nobody was asked to compress, so decoding would only cost.
        self._chunks = response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()
        self._client = client
        self._quiet_since: float | None = None

    async def read(self) -> bytes:
        """The next bytes, or none at the end. Raises `ProviderError`, also for silence."""
        try:
            return await anext(self._chunks, b"")
        except self._client.known as error:
            raise self._client.connection_error(error, "ResponseStreamDisconnected") from None

    def judge(self, *, alive: bool) -> None:
        """Whether what was read last was a sign of life. Raises `ProviderError` when there was none for too long.

        Silence is noticed by the client; this is for a service that pings and says nothing.
        """
        if alive:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = anyio.current_time()
        elif anyio.current_time() - self._quiet_since > self._client.patience.idle_s:
            raise self._client.idle_error()

    async def all(self, longest: int = ERROR_BODY_BYTES) -> bytes:
        """What there is, up to a bound: errors are short."""
        body = b""
        while len(body) < longest and (chunk := await self.read()):
            body += chunk
        return body[:longest]

    async def drain(self) -> None:
        """Read the end of a body that has said all it will, so that the connection can be used again."""
        try:
            with anyio.move_on_after(DRAIN_SECONDS):
                async for _ in self._chunks:
                    pass
        except self._client.known:
            pass  # the answer is complete; how the connection ends does not matter


class HttpClient:
    """A connection pool to one service."""

    def __init__(self, service: ServiceInfo, headers: Mapping[str, str], *, patience: Patience) -> None:
        self.patience = patience
        self.known: tuple[type[Exception], ...] = _BROKEN
        self._service = service
        self._headers = dict(headers)
        self._client: httpx2.AsyncClient | None = None
        self._loop: EventLoopToken | None = None
        self._building = anyio.Lock()
        parts = urlsplit(service.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misconfigured(f"{service.url_variable} must be an address that begins with http:// or https://")
        self._secure = parts.scheme == "https"
        self._near = parts.hostname in LOOPBACK

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._loop == current_token():
            await client.aclose()

    @asynccontextmanager
    async def send(self, method: str, path: str, body: bytes | None = None) -> AsyncGenerator[HttpResponse]:
        """Raises `ProviderError` for whatever happens before the headers are in."""
        client = await self.warm()
        response = None
        try:
            request = client.build_request(method, self._service.url.rstrip("/") + path, content=body)
            with anyio.move_on_after(self.patience.idle_s):
                response = await client.send(request, stream=True)
        except self.known as error:
            raise self.connection_error(error, "HttpConnectionFailed") from None
        if response is None:
            raise self.idle_error()
        try:
            yield HttpResponse(response, self)
        finally:
            await response.aclose()

    def idle_error(self) -> ProviderError:
        return ProviderError(
            f"{self._service.name} sent nothing for {self.patience.idle_s:.0f} s; try again",
            retryable=True,
            info="ResponseStreamDisconnected",
        )

    def connection_error(self, error: Exception, info: ErrorInfo) -> ProviderError:
        """What a broken connection means. Headers show up in some of these errors, so none is passed on as it is."""
        kind, causes = type(error).__name__, list(_causes(error))
        if kind == "ReadTimeout":
            return self.idle_error()
        address = self._service.address
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
            sentence = f"the certificate of {address} is not trusted; set SSL_CERT_FILE if it is your own"
        elif kind in ("InvalidURL", "UnsupportedProtocol", "LocalProtocolError"):
            sentence = f"the request to {address} is not valid; check {self._service.url_variable} and the key"
        else:
            return ProviderError(self._broken_sentence(kind, causes, info), retryable=True, info=info)
        return ProviderError(sentence, info="HttpConnectionFailed")

    def _broken_sentence(self, kind: str, causes: list[BaseException], info: ErrorInfo) -> str:
        address = self._service.address
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            return f"the host name in {address} cannot be resolved; check the network and {self._service.url_variable}"
        if kind == "ConnectTimeout":
            return f"{address} did not answer within {self.patience.connect_s:.0f} s; check the network"
        if kind == "ProxyError":
            return f"the proxy refused the connection to {address}; check HTTPS_PROXY: {self._redact(causes[0])}"
        if kind in ("ConnectError", "WriteTimeout", "PoolTimeout"):
            return f"{address} cannot be reached; check the network: {self._redact(causes[0])}"
        if info == "ResponseStreamDisconnected":
            return f"the connection to {self._service.name} was lost in the middle of the answer; try again"
        return f"the connection to {self._service.name} was lost before an answer came; try again"

    def _redact(self, error: BaseException) -> str:
        return tidy(redact(str(error), self._service.secrets))

    async def warm(self) -> "httpx2.AsyncClient":
        """Be ready before the first request."""
        if (loop := current_token()) != self._loop:
            # Connections die with the event loop they were made in, and a program may run one after another.
            self._loop, self._client, self._building = loop, None, anyio.Lock()
        if self._client is not None:
            return self._client
        async with self._building:
            if self._client is None:
                self._client = await to_thread.run_sync(self._build)
            return self._client

    def _build(self) -> "httpx2.AsyncClient":
        import httpx2

        self.known = (*_BROKEN, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL)
        return httpx2.AsyncClient(
            headers=self._headers,
            verify=self._secure,  # a context for TLS costs 100 ms, and plain HTTP has no use for it
            trust_env=not self._near,  # proxies are for elsewhere
            timeout=httpx2.Timeout(
                connect=self.patience.connect_s, read=self.patience.idle_s, write=WRITE_SECONDS, pool=None
            ),
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS, keepalive_expiry=KEPT_SECONDS
            ),
        )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
