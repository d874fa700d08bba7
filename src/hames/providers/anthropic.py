"""Anthropic's Messages API, read with our own lean decoder. The official SDK is the oracle in the tests.

A thought is signed for the conversation and the model it was made in. When the service
will not have an old one back, the request is sent once more without any, because a
thread that can never go on is worse than one that forgot what it thought.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from hames.domain.errors import Misconfigured, ProviderError
from hames.domain.json import Json
from hames.domain.request import ModelEvent, ModelRequest, ProviderNotice
from hames.ports import Clock
from hames.providers import claude, failures
from hames.providers.anthropic_request import encode
from hames.providers.anthropic_stream import AnthropicStream
from hames.providers.failures import Refusal, Service
from hames.providers.retry import PATIENCE, Patience, retrying
from hames.providers.wire import Answer, Wire

VERSION = "2026-10-21"
PATH = "/v1/messages"
MODELS_PATH = "/v1/models?limit=1000"
LIST_BYTES = 16 * 1024 * 1024

_UNWANTED_THOUGHT = re.compile(
    r"(?i)thinking.*(signature|cannot be modified|bound to|must (?:start|remain))"
    r"|signature.*thinking|expected `?(?:redacted_)?thinking"
)


class AnthropicProvider:
    """Either a key or a bearer token signs in."""

    name = claude.PROVIDER

    def __init__(
        self,
        *,
        clock: Clock,
        api_key: str = "",
        auth_token: str = "",
        base_url: str = claude.BASE_URL,
        patience: Patience = PATIENCE,
    ) -> None:
        """Raises `Misconfigured`."""
        api_key, auth_token = api_key.strip(), auth_token.strip()
        if not api_key and not auth_token:
            raise Misconfigured(failures.no_key("Anthropic", self.name, "ANTHROPIC_API_KEY"))
        if not (api_key + auth_token).isascii() or not (api_key + auth_token).isprintable():
            raise Misconfigured("ANTHROPIC_API_KEY holds characters no key has; set it again")
        self._clock = clock
        self._patience = patience
        self._service = Service(
            name="the Anthropic API",
            provider=self.name,
            key_variable="ANTHROPIC_API_KEY",
            url=base_url,
            url_variable="ANTHROPIC_BASE_URL",
            models=claude.current(),
            secrets=tuple(filter(None, (api_key, auth_token))),
        )
        sign_in = {"x-api-key": api_key} if api_key else {"authorization": f"Bearer {auth_token}"}
        headers = {
            "anthropic-version": VERSION,
            "content-type": "application/json",
            "accept": "text/event-stream",
            "user-agent": "hames",
            "accept-encoding": "identity",
            **sign_in,
        }
        self._wire = Wire(self._service, headers, patience=patience)

    async def warm(self) -> None:
        """Prepare the connection pool, so that the first request need not."""
        await self._wire.warm()

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def models(self) -> bytes:
        """The service's own list, as it sent it. Raises `ProviderError`."""
        async with self._wire.get(MODELS_PATH) as answer:
            if answer.status != 200:
                raise await self._refused(answer, "")
            return await answer.all(LIST_BYTES)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            async with aclosing(self._patiently(encode(request), request.model)) as events:
                async for event in events:
                    yield event
            return
        except ProviderError as error:
            plain = encode(request, reasoning=False)
            if error.status != 400 or not _UNWANTED_THOUGHT.search(str(error)) or plain == encode(request):
                raise
        yield ProviderNotice(
            name="reasoning_dropped", message="the service did not take earlier reasoning back; going on without it"
        )
        async with aclosing(self._patiently(plain, request.model)) as events:
            async for event in events:
                yield event

    def _patiently(self, body: bytes, model: str) -> AsyncGenerator[ModelEvent, None]:
        return retrying(lambda: self._attempt(body, model), clock=self._clock, patience=self._patience)

    async def _attempt(self, body: bytes, model: str) -> AsyncGenerator[ModelEvent, None]:
        async with self._wire.post(PATH, body) as answer:
            if answer.status != 200 or not _is_stream(answer):
                raise await self._refused(answer, model)
            reply, seen = AnthropicStream(self._failed), 0
            while not reply.ended:
                chunk = await answer.read()
                for event in reply.feed(chunk) if chunk else reply.finish():
                    yield event
                if reply.failure is not None:
                    raise reply.failure
                answer.judge(alive=reply.progress > seen)
                seen = reply.progress
            await answer.drain()

    async def _refused(self, answer: Answer, model: str) -> ProviderError:
        body = await answer.all()
        if answer.status == 200:
            what = _kind(answer)
            return ProviderError(
                f"{self._service.address} answered with {what} instead of a stream; check {self._service.url_variable}",
                status=200,
                info="HttpConnectionFailed",
            )
        said = _error_in(body)
        return failures.error(
            self._service,
            Refusal(
                status=answer.status,
                kind=_word(said, "type"),
                code=_word(said.get("details"), "error_code"),
                message=_word(said, "message") or body.decode(errors="replace"),
                retry_after_s=failures.retry_after_s(answer.headers, now_ms=self._clock.now_ms()),
                should_retry=failures.should_retry(answer.headers),
                model=model,
            ),
        )

    def _failed(self, said: Json) -> ProviderError:
        """An `error` event inside the stream."""
        refusal = Refusal(
            kind=_word(said, "type"),
            code=_word(said.get("details") if isinstance(said, dict) else None, "error_code"),
            message=_word(said, "message"),
        )
        return failures.error(self._service, refusal)


def _is_stream(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "").lower()
    return not kind.startswith(("text/html", "application/json", "text/plain"))


def _kind(answer: Answer) -> str:
    return failures.tidy(answer.headers.get("content-type", "")) or "something"


def _error_in(body: bytes) -> dict[str, Json]:
    try:
        said = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    error = said.get("error") if isinstance(said, dict) else None
    return error if isinstance(error, dict) else {}


def _word(said: Json, name: str) -> str:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""
