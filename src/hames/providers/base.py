"""What all model services that are spoken to over HTTP share: signing in, lists of models, retries, reading a reply."""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from hames.domain.errors import Misconfigured, ProviderError
from hames.domain.json import Json
from hames.domain.request import ModelEvent, ModelRequest, ProviderNotice
from hames.ports import Clock
from hames.providers import failures
from hames.providers.failures import ServiceInfo, ServiceRefusal
from hames.providers.http import HttpClient, HttpResponse
from hames.providers.reply_stream import ReplyStream
from hames.providers.retry import Patience, retrying

LIST_BYTES = 16 * 1024 * 1024
HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    "user-agent": "hames",
    "accept-encoding": "identity",
}

Form = TypeVar("Form")
"""How a request is written: what is left out for a service that refused it the first time."""


def checked_key(key: str, variable: str) -> str:
    """The key without white space around it. Raises `Misconfigured`."""
    key = key.strip()
    if not key.isascii() or (key and not key.isprintable()):
        raise Misconfigured(f"{variable} contains characters that a key cannot have; set it again")
    return key


class HttpProvider(ABC, Generic[Form]):
    """A provider that streams replies over HTTP. A subclass writes requests, reads replies and judges refusals."""

    name: str
    path: ClassVar[str]
    models_path: ClassVar[str] = "/models"

    def __init__(self, service: ServiceInfo, headers: Mapping[str, str], *, clock: Clock, patience: Patience) -> None:
        """`headers` sign in. Raises `Misconfigured`."""
        self._service = service
        self._clock = clock
        self._patience = patience
        self._http = HttpClient(service, {**HEADERS, **headers}, patience=patience)

    async def warm(self) -> None:
        """Prepare the connection pool, so that the first request need not."""
        await self._http.warm()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def models(self) -> bytes:
        """The service's own list, as it sent it. Raises `ProviderError`."""
        async with self._http.send("GET", self.models_path) as answer:
            if answer.status != 200:
                raise failures.provider_error(self._service, await self._refusal(answer, ""))
            return await answer.all(LIST_BYTES)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        form = self._first_form(request)
        while True:
            body = self._encode(request, form)
            try:
                attempts = retrying(
                    lambda body=body: self._attempt(body, request), clock=self._clock, patience=self._patience
                )
                async with aclosing(attempts) as events:
                    async for event in events:
                        yield event
                return
            except ProviderError as error:
                simpler = self._simpler_form(form, error)
                if simpler is None or self._encode(request, simpler) == body:
                    raise
            if self._drops_reasoning(form, simpler):
                yield ProviderNotice(
                    name="reasoning_dropped",
                    message="the service did not accept earlier reasoning; continuing without it",
                )
            form = simpler

    async def _attempt(self, body: bytes, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async with self._http.send("POST", self.path, body) as answer:
            if answer.status != 200 or not _is_stream(answer):
                refusal = await self._refusal(answer, request.model)
                raise self._refused(refusal, request, answer.headers.get("content-type", ""))
            reply, seen = self._reply_reader(request), 0
            while not reply.ended:
                chunk = await answer.read()
                for event in reply.feed(chunk) if chunk else reply.finish():
                    yield event
                if reply.failure is not None:
                    raise reply.failure
                answer.judge(alive=reply.progress > seen)
                seen = reply.progress
            await answer.drain()

    async def _refusal(self, answer: HttpResponse, model: str) -> ServiceRefusal:
        """An answer that is not a stream, as far as it can be read."""
        body = await answer.all()
        try:
            refusal = self._read_error(msgspec.json.decode(body))
        except (ValueError, RecursionError):
            refusal = ServiceRefusal()
        return replace(
            refusal,
            status=answer.status,
            message=refusal.message or body.decode(errors="replace"),
            retry_after_s=failures.retry_after_s(answer.headers, now_ms=self._clock.now_ms()),
            should_retry=failures.should_retry(answer.headers),
            model=model,
        )

    def _refused(self, refusal: ServiceRefusal, request: ModelRequest, content_type: str) -> ProviderError:  # noqa: ARG002
        """The error a client sees. `content_type`: what came with status 200 instead of a stream."""
        if refusal.status != 200:
            return failures.provider_error(self._service, refusal)
        if refusal.kind or refusal.code:  # an error with the status of a success
            return failures.provider_error(self._service, replace(refusal, status=0))
        return ProviderError(
            f"{self._service.address} answered with {failures.tidy(content_type) or 'something'} instead of a stream; "
            f"check {self._service.url_variable}",
            status=200,
            info="HttpConnectionFailed",
        )

    @abstractmethod
    def _first_form(self, request: ModelRequest) -> Form: ...

    @abstractmethod
    def _encode(self, request: ModelRequest, form: Form) -> bytes: ...

    @abstractmethod
    def _simpler_form(self, form: Form, error: ProviderError) -> Form | None:
        """How to ask again without what the service refused; None: asking again is no use."""

    def _drops_reasoning(self, form: Form, simpler: Form) -> bool:  # noqa: ARG002
        return True

    @abstractmethod
    def _reply_reader(self, request: ModelRequest) -> ReplyStream: ...

    @abstractmethod
    def _read_error(self, body: Json) -> ServiceRefusal:
        """The kind, code and message of an error in a response body."""


class ReasoningProvider(HttpProvider[bool]):
    """The form of a request: with or without earlier reasoning, which a service may not take back."""

    reasoning_refusal: ClassVar[re.Pattern[str]]
    """How the service says so."""

    def _first_form(self, request: ModelRequest) -> bool:  # noqa: ARG002
        return True

    def _simpler_form(self, form: bool, error: ProviderError) -> bool | None:
        refused = error.status in (400, 404) and self.reasoning_refusal.search(str(error))
        return False if form and refused else None


def _is_stream(answer: HttpResponse) -> bool:
    kind = answer.headers.get("content-type", "").lower()
    return not kind.startswith(("text/html", "application/json", "text/plain"))
