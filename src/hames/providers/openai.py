"""OpenAI's Responses API, read with our own lean decoder. The official SDK is the oracle in the tests.

Thoughts come back encrypted for the key and the model they were made with. When the service
will not have an old one back, the request is sent once more without any.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from hames.domain.errors import Misconfigured, ProviderError
from hames.domain.json import Json
from hames.domain.request import ModelEvent, ModelRequest, ProviderNotice
from hames.ports import Clock
from hames.providers import failures, gpt, openai_errors
from hames.providers.failures import Service
from hames.providers.openai_request import encode
from hames.providers.openai_stream import OpenAIStream
from hames.providers.retry import PATIENCE, Patience, retrying
from hames.providers.wire import Wire

PATH = "/responses"
MODELS_PATH = "/models"
LIST_BYTES = 16 * 1024 * 1024

_UNWANTED_THOUGHT = re.compile(
    r"(?i)encrypted[ _]content|\brs_\w+|reasoning.*(not found|without its required|could not be verified)"
)


class OpenAIProvider:
    name = gpt.PROVIDER

    def __init__(
        self, *, clock: Clock, api_key: str, base_url: str = gpt.BASE_URL, patience: Patience = PATIENCE
    ) -> None:
        """Raises `Misconfigured`."""
        api_key = api_key.strip()
        if not api_key:
            raise Misconfigured(failures.no_key("OpenAI", self.name, "OPENAI_API_KEY"))
        if not api_key.isascii() or not api_key.isprintable():
            raise Misconfigured("OPENAI_API_KEY holds characters no key has; set it again")
        self._clock = clock
        self._patience = patience
        self._service = Service(
            name="the OpenAI API",
            provider=self.name,
            key_variable="OPENAI_API_KEY",
            url=base_url,
            url_variable="OPENAI_BASE_URL",
            models=gpt.current(),
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
        """Prepare the connection pool, so that the first request need not."""
        await self._wire.warm()

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def models(self) -> bytes:
        """The service's own list, as it sent it. Raises `ProviderError`."""
        async with self._wire.get(MODELS_PATH) as answer:
            if answer.status != 200:
                said = await openai_errors.refusal(answer, model="", now_ms=self._clock.now_ms())
                raise failures.error(self._service, said)
            return await answer.all(LIST_BYTES)

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
            if answer.status != 200 or not openai_errors.is_stream(answer):
                said = await openai_errors.refusal(answer, model=model, now_ms=self._clock.now_ms())
                raise openai_errors.judged(self._service, said, kind=answer.headers.get("content-type", ""))
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
        return failures.error(self._service, openai_errors.inside(said))
