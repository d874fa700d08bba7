"""OpenAI's Responses API, read with our own lean decoder. The official SDK is the oracle in the tests."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from hames.domain.errors import Misconfigured, ProviderError
from hames.domain.json import Json
from hames.domain.request import ModelEvent, ModelRequest, ProviderNotice
from hames.ports import Clock
from hames.providers import failures, gpt
from hames.providers.failures import Refusal, Service
from hames.providers.openai_request import encode
from hames.providers.openai_stream import OpenAIStream
from hames.providers.retry import PATIENCE, Patience, retrying
from hames.providers.wire import Answer, Wire

BASE_URL = "https://api.openai.com/v1"
PATH = "/responses"

_UNWANTED_THOUGHT = re.compile(
    r"(?i)encrypted[ _]content|reasoning.*(not found|without its required|could not be verified)"
)


class OpenAIProvider:
    name = gpt.PROVIDER

    def __init__(self, *, clock: Clock, api_key: str, base_url: str = BASE_URL, patience: Patience = PATIENCE) -> None:
        """Raises `Misconfigured`."""
        api_key = api_key.strip()
        if not api_key:
            raise Misconfigured("no key for OpenAI; set OPENAI_API_KEY")
        if not api_key.isascii() or not api_key.isprintable():
            raise Misconfigured("OPENAI_API_KEY holds characters no key has; set it again")
        self._clock = clock
        self._patience = patience
        self._service = Service(
            name="the OpenAI API",
            key_variable="OPENAI_API_KEY",
            url=base_url,
            url_variable="OPENAI_BASE_URL",
            models=tuple(card.model for card in gpt.MODELS[:3]),
            secrets=(api_key,),
        )
        headers = {
            "authorization": f"Bearer {api_key}",
            "content-type": "application/json",
            "accept": "text/event-stream",
            "user-agent": "hames",
            "accept-encoding": "identity",
        }
        self._wire = Wire(self._service, headers, patience=patience)

    async def warm(self) -> None:
        await self._wire.warm()

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        body = encode(request)
        try:
            async with aclosing(self._patiently(body, request.model)) as events:
                async for event in events:
                    yield event
            return
        except ProviderError as error:
            plain = encode(request, reasoning=False)
            if error.status not in (400, 404) or not _UNWANTED_THOUGHT.search(str(error)) or plain == body:
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
            if answer.status != 200 or not is_stream(answer):
                raise await refused(answer, self._service, model, now_ms=self._clock.now_ms())
            reply, seen = OpenAIStream(self._failed), 0
            while not reply.ended:
                chunk = await answer.read()
                for event in reply.feed(chunk) if chunk else reply.finish():
                    yield event
                if reply.failure is not None:
                    raise reply.failure
                answer.judge(alive=reply.progress > seen)
                seen = reply.progress
            await answer.drain()

    def _failed(self, said: Json) -> ProviderError:
        """An error inside a stream that had begun well."""
        return failures.error(
            self._service, Refusal(kind=_word(said, "code") or _word(said, "type"), message=_word(said, "message"))
        )


def is_stream(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "").lower()
    return not kind.startswith(("text/html", "application/json", "text/plain"))


async def refused(answer: Answer, service: Service, model: str, *, now_ms: int) -> ProviderError:
    """An answer that is not a stream, in words for people. Shared with servers that speak like OpenAI's."""
    body = await answer.all()
    if answer.status == 200:
        what = failures.tidy(answer.headers.get("content-type", "")) or "something"
        return ProviderError(
            f"{service.address} answered with {what} instead of a stream; check {service.url_variable}",
            status=200,
            info="HttpConnectionFailed",
        )
    said = _error_in(body)
    return failures.error(
        service,
        Refusal(
            status=answer.status,
            kind=_word(said, "type"),
            code=_word(said, "code"),
            message=_word(said, "message") or body.decode(errors="replace"),
            retry_after_s=failures.retry_after_s(answer.headers, now_ms=now_ms),
            should_retry=failures.should_retry(answer.headers),
            model=model,
        ),
    )


def _error_in(body: bytes) -> dict[str, Json]:
    try:
        said = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, str):
        return {"message": error}
    return error if isinstance(error, dict) else {}


def _word(said: Json, name: str) -> str:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""
