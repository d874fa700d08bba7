"""Claude on somebody's cloud: Bedrock, Vertex and Foundry, whose sign-ins only the official SDK knows.

The SDK signs, sends and unpacks; what comes back is read by our own decoder, as everywhere. It is an extra
(`pip install 'hames[clouds]'`) and is imported only when such a model is used. Credentials are the cloud's own: its
environment variables, profiles and metadata servers, as the SDK finds them.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hames.domain.errors import Misconfigured, ProviderError, UnknownModel
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.domain.request import ModelEvent, ModelRequest
from hames.ports import Clock, Provider
from hames.providers import claude, failures
from hames.providers.anthropic_request import as_json
from hames.providers.anthropic_stream import AnthropicStream
from hames.providers.failures import Refusal, Service
from hames.providers.retry import PATIENCE, Patience, retrying

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

CLOUDS = {"bedrock": "AsyncAnthropicBedrock", "vertex": "AsyncAnthropicVertex", "foundry": "AsyncAnthropicFoundry"}


class CloudProvider:
    """`client` makes one of the SDK's clients. Thoughts are signed by the model, not by the cloud."""

    name = claude.PROVIDER

    def __init__(
        self, cloud: str, *, clock: Clock, client: "Callable[[], AsyncAnthropic]", patience: Patience = PATIENCE
    ) -> None:
        self._make = client
        self._client: AsyncAnthropic | None = None
        self._clock = clock
        self._patience = patience
        self._service = Service(
            name=f"Claude on {cloud}",
            key_variable=f"the sign-in of {cloud}",
            url="",
            url_variable=f"the region of {cloud}",
        )

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def warm(self) -> None:
        """Importing the SDK takes most of a second; it is left to the first request."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return retrying(lambda: self._attempt(request), clock=self._clock, patience=self._patience)

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        import anthropic
        import httpx2

        body = as_json(request)
        reply = AnthropicStream(self._failed)
        try:
            if self._client is None:
                self._client = self._make()
            messages: Any = self._client.messages
            async with await messages.create(**body) as events:
                async for event in events:
                    data = event.model_dump_json().encode()
                    for told in reply.feed(b"event: %b\ndata: %b\n\n" % (event.type.encode(), data)):
                        yield told
                    if reply.failure is not None:
                        raise reply.failure
        except anthropic.APIStatusError as error:
            raise self._refused(error.status_code, error.body, request.model) from None
        except anthropic.AnthropicError as error:
            raise ProviderError(
                f"{self._service.name} cannot be reached: {failures.tidy(str(error))}",
                retryable=isinstance(error, anthropic.APIConnectionError),
                info="HttpConnectionFailed",
            ) from None
        except (
            httpx2.HTTPError,
            httpx2.StreamError,
            ValueError,
        ) as error:  # the SDK lets them through
            what = failures.tidy(str(error)) or type(error).__name__
            raise ProviderError(
                f"{self._service.name} broke off: {what}", retryable=True, info="ResponseStreamDisconnected"
            ) from None
        for told in reply.finish() if not reply.ended else ():
            yield told
        if reply.failure is not None:
            raise reply.failure

    def _refused(self, status: int, body: object, model: str) -> ProviderError:
        said = body.get("error") if isinstance(body, dict) else None
        error: Json = said if isinstance(said, dict) else {}
        refusal = Refusal(
            status=status, kind=str(error.get("type", "")), message=str(error.get("message", body or "")), model=model
        )
        return failures.error(self._service, refusal)

    def _failed(self, said: Json) -> ProviderError:
        return self._refused(0, {"error": said}, "")


class CloudShelf:
    """`bedrock/MODEL`, `vertex/MODEL`, `foundry/MODEL`: named as the cloud names it. None is listed."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock

    def cards(self) -> Sequence[ModelCard]:
        return ()

    def selectors(self) -> Sequence[Selector]:
        return ()

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002 - a bare name never means a cloud
        return None

    def named(self, model: str) -> ModelCard:
        if not model or " " in model or not model.isprintable():
            raise UnknownModel(f"no model {model!r} on {self.name}")
        return msgspec.structs.replace(claude.claude(model).card, provider=self.name, model=model)

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        try:
            import anthropic
        except ImportError:
            raise Misconfigured(f"models on {self.name} need Anthropic's SDK: pip install 'hames[clouds]'") from None
        return CloudProvider(self.name, clock=self._clock, client=getattr(anthropic, CLOUDS[self.name]))
