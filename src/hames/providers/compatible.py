"""Any server that speaks chat completions: Ollama, llama.cpp, vLLM, LM Studio, OpenRouter and their kind.

A model that cannot call tools is told apart from a broken turn: the server's own words for it are
recognised, and the error says what to do. A server that stumbles over what only some understand
(a count of tokens, a thought that comes back) is asked once more without it, and remembered for that.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from msgspec.structs import replace

from hames.domain.errors import Misconfigured, ProviderError
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.request import ModelEvent, ModelRequest, ProviderNotice
from hames.ports import Clock
from hames.providers import failures, openai_errors
from hames.providers.compatible_request import Manner, encode
from hames.providers.compatible_servers import Server
from hames.providers.compatible_stream import ChatStream
from hames.providers.failures import Refusal, Service
from hames.providers.retry import PATIENCE, Patience, retrying
from hames.providers.wire import Wire

PATH = "/chat/completions"
MODELS_PATH = "/models"
LIST_BYTES = 16 * 1024 * 1024

_NO_TOOLS = re.compile(
    r"(?i)(?:does not|doesn't|do not|not) support (?:the )?(?:use of )?(?:tool|function)|support tool use"
    r"|tools? (?:param\w*|choice) requires|enable-auto-tool-choice|requires --jinja"
    r"|(?:tools?|tool calls?|tool calling|tool use|function calling|functions) (?:is|are) not (?:supported|available)"
    r"|(?:unsupported|unknown|unrecognized) (?:parameter|argument|field|request argument supplied)\W{1,4}tools?\b"
)
_UNWANTED_COUNT = re.compile(r"(?i)stream_options|include_usage")
_OTHER_BOUND = re.compile(r"max_completion_tokens")
_UNWANTED_THOUGHT = re.compile(r"(?i)reasoning(?:_content)?\b")


class CompatibleProvider:
    """`card` tells what is known of a model; without it, everything is tried."""

    def __init__(
        self,
        server: Server,
        *,
        clock: Clock,
        url: str = "",
        api_key: str = "",
        extra: Mapping[str, Json] | None = None,
        card: Callable[[str], ModelCard] | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        """Raises `Misconfigured`."""
        api_key, url = api_key.strip(), url.strip() or server.url
        if not url:
            raise Misconfigured(failures.no_address(server.name, server.url_variable))
        if not api_key and server.needs_key:
            raise Misconfigured(failures.no_key(server.title, server.name, server.key_variable))
        if not api_key.isascii() or (api_key and not api_key.isprintable()):
            raise Misconfigured(f"{server.key_variable} holds characters no key has; set it again")
        self.name = server.name
        self._server = server
        self._clock = clock
        self._patience = patience
        self._card = card
        self._manner = Manner(provider=server.name, extra=extra or {})
        self._service = Service(
            name=server.title,
            provider=server.name,
            key_variable=server.key_variable,
            url=url,
            url_variable=server.url_variable,
            secrets=(api_key,) if api_key else (),
        )
        if not server.url:  # nobody knows its name: its address says which one it is
            self._service = replace(self._service, name=f"{server.title} at {self._service.address}")
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "user-agent": "hames",
            "accept-encoding": "identity",
            **({"authorization": f"Bearer {api_key}"} if api_key else {}),
        }
        self._wire = Wire(self._service, headers, patience=patience)

    async def warm(self) -> None:
        """Prepare the connection pool, so that the first request need not."""
        await self._wire.warm()

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def models(self) -> bytes:
        """The server's own list, as it sent it. Raises `ProviderError`."""
        async with self._wire.get(MODELS_PATH) as answer:
            if answer.status != 200:
                said = await openai_errors.refusal(answer, model="", now_ms=self._clock.now_ms())
                raise failures.error(self._service, said)
            return await answer.all(LIST_BYTES)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        manner = self._manner
        if self._card is not None:
            card = self._card(request.model)
            if request.tools and not card.tools:
                raise self._without_tools(request.model, "its list of models says so")
            manner = replace(manner, images=card.images)
        while True:
            body = encode(request, manner)
            try:
                async with aclosing(self._patiently(body, request)) as events:
                    async for event in events:
                        yield event
                return
            except ProviderError as error:
                plainer = self._plainer(manner, error)
                if plainer is None or encode(request, plainer) == body:
                    raise
            if plainer.provider != manner.provider:
                yield ProviderNotice(
                    name="reasoning_dropped",
                    message="the server did not take earlier reasoning back; going on without it",
                )
            else:
                # It will not learn it by tomorrow.
                self._manner = replace(self._manner, usage=plainer.usage, bound=plainer.bound)
            manner = plainer

    def _plainer(self, manner: Manner, error: ProviderError) -> Manner | None:
        """How to ask again without what the server stumbled over."""
        if error.status not in (400, 422):
            return None
        if manner.usage and _UNWANTED_COUNT.search(str(error)):
            return replace(manner, usage=False)
        if manner.bound == "max_tokens" and _OTHER_BOUND.search(str(error)):
            return replace(manner, bound="max_completion_tokens")
        if manner.provider and _UNWANTED_THOUGHT.search(str(error)):
            return replace(manner, provider="")
        return None

    def _patiently(self, body: bytes, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return retrying(lambda: self._attempt(body, request), clock=self._clock, patience=self._patience)

    async def _attempt(self, body: bytes, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async with self._wire.post(PATH, body) as answer:
            if answer.status != 200 or not openai_errors.is_stream(answer):
                said = await openai_errors.refusal(answer, model=request.model, now_ms=self._clock.now_ms())
                raise self._refused(said, request, answer.headers.get("content-type", ""))
            reply, seen = ChatStream(lambda error: self._failed(error, request)), 0
            while not reply.ended:
                chunk = await answer.read()
                for event in reply.feed(chunk) if chunk else reply.finish():
                    yield event
                if reply.failure is not None:
                    raise reply.failure
                answer.judge(alive=reply.progress > seen)
                seen = reply.progress
            await answer.drain()

    def _refused(self, said: Refusal, request: ModelRequest, kind: str) -> ProviderError:
        if request.tools and _NO_TOOLS.search(said.message):
            return self._without_tools(request.model, said.message, status=said.status)
        if said.status == 404 and not said.kind and "model" in said.message.lower():
            said = replace(said, kind="not_found")
        return openai_errors.judged(self._service, said, kind=kind)

    def _failed(self, error: Json, request: ModelRequest) -> ProviderError:
        """An error inside a stream that had begun well."""
        said = openai_errors.inside(error)
        if request.tools and _NO_TOOLS.search(said.message):
            return self._without_tools(request.model, said.message)
        return failures.error(self._service, said)

    def _without_tools(self, model: str, said: str, *, status: int = 0) -> ProviderError:
        words = failures.tidy(failures.redact(said, self._service.secrets))
        return ProviderError(
            f"the model {model!r} at {self._service.address} cannot call tools, and nothing gets done without; "
            f"use a model that can{self._server.tools_hint}: {words}",
            status=status or None,
            info="BadRequest",
        )
