"""Claude on somebody's cloud: Bedrock, Vertex and Foundry, whose sign-ins only the official SDK knows.

The SDK signs, sends and unpacks; what comes back is read by our own decoder, as everywhere. It is an extra
(`pip install 'hames[clouds]'`) and is imported only when such a model is used. Credentials are the cloud's own: its
environment variables, profiles and metadata servers, as the SDK finds them.
"""

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.request import ModelEvent, ModelRequest
from hames.ports import Clock
from hames.providers import failures
from hames.providers.anthropic import models
from hames.providers.anthropic.request import as_json
from hames.providers.anthropic.stream import AnthropicStream
from hames.providers.failures import ServiceInfo, ServiceRefusal
from hames.providers.retry import PATIENCE, Patience, retrying
from hames.providers.source import StreamOnly

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class CloudProvider(StreamOnly):
    """`client` makes one of the SDK's clients. Thoughts are signed by the model, not by the cloud."""

    name = models.PROVIDER

    def __init__(
        self, cloud: str, *, clock: Clock, client: "Callable[[], AsyncAnthropic]", patience: Patience = PATIENCE
    ) -> None:
        self._make = client
        self._client: AsyncAnthropic | None = None
        self._clock = clock
        self._patience = patience
        self._service = ServiceInfo(
            name=f"Claude on {cloud}",
            key_variable=f"the sign-in of {cloud}",
            url="",
            url_variable=f"the region of {cloud}",
        )

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

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
                    for read in reply.feed(b"event: %b\ndata: %b\n\n" % (event.type.encode(), data)):
                        yield read
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
        except (httpx2.HTTPError, httpx2.StreamError, ValueError) as error:  # the SDK lets them through
            what = failures.tidy(str(error)) or type(error).__name__
            raise ProviderError(
                f"{self._service.name} ended early: {what}", retryable=True, info="ResponseStreamDisconnected"
            ) from None
        for read in reply.finish() if not reply.ended else ():
            yield read
        if reply.failure is not None:
            raise reply.failure

    def _refused(self, status: int, body: object, model: str) -> ProviderError:
        found = body.get("error") if isinstance(body, dict) else None
        error: Json = found if isinstance(found, dict) else {}
        refusal = ServiceRefusal(
            status=status, kind=str(error.get("type", "")), message=str(error.get("message", body or "")), model=model
        )
        return failures.provider_error(self._service, refusal)

    def _failed(self, error: Json) -> ProviderError:
        return self._refused(0, {"error": error}, "")
