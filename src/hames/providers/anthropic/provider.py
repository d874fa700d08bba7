"""Anthropic's Messages API, read with our own lean decoder. The official SDK is the oracle in the tests.

Reasoning is signed for the conversation and the model it was made in. When the service refuses earlier
reasoning, the request is sent once more without it: a thread that can never continue would be worse.
"""

import re

from hames.codecs.jsontext import text_member
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.request import ModelRequest
from hames.ports import Clock
from hames.providers import failures
from hames.providers.anthropic import models
from hames.providers.anthropic.request import encode
from hames.providers.anthropic.stream import AnthropicStream
from hames.providers.base import ReasoningProvider, checked_key
from hames.providers.failures import ServiceInfo, ServiceRefusal
from hames.providers.retry import PATIENCE, Patience

VERSION = "2026-10-21"


class AnthropicProvider(ReasoningProvider):
    """Either a key or a bearer token signs in."""

    name = models.PROVIDER
    path = "/v1/messages"
    models_path = "/v1/models?limit=1000"
    reasoning_refusal = re.compile(
        r"(?i)thinking.*(signature|cannot be modified|bound to|must (?:start|remain))"
        r"|signature.*thinking|expected `?(?:redacted_)?thinking"
    )

    def __init__(
        self,
        *,
        clock: Clock,
        api_key: str = "",
        auth_token: str = "",
        base_url: str = models.BASE_URL,
        patience: Patience = PATIENCE,
    ) -> None:
        """Raises `Misconfigured`."""
        api_key, auth_token = (checked_key(key, "ANTHROPIC_API_KEY") for key in (api_key, auth_token))
        if not api_key and not auth_token:
            raise Misconfigured(failures.no_key("Anthropic", self.name, "ANTHROPIC_API_KEY"))
        service = ServiceInfo(
            name="the Anthropic API",
            provider=self.name,
            key_variable="ANTHROPIC_API_KEY",
            url=base_url,
            url_variable="ANTHROPIC_BASE_URL",
            models=models.current(),
            secrets=tuple(filter(None, (api_key, auth_token))),
        )
        sign_in = {"x-api-key": api_key} if api_key else {"authorization": f"Bearer {auth_token}"}
        super().__init__(service, {"anthropic-version": VERSION, **sign_in}, clock=clock, patience=patience)

    def _encode(self, request: ModelRequest, form: bool) -> bytes:
        return encode(request, reasoning=form)

    def _reply_reader(self, request: ModelRequest) -> AnthropicStream:  # noqa: ARG002
        return AnthropicStream(lambda error: failures.provider_error(self._service, read_error(error)))

    def _read_error(self, body: Json) -> ServiceRefusal:
        return read_error(body.get("error") if isinstance(body, dict) else None)


def read_error(error: Json) -> ServiceRefusal:
    """An error object of the service, from a response body or from inside a stream."""
    details = error.get("details") if isinstance(error, dict) else None
    return ServiceRefusal(
        kind=text_member(error, "type"), code=text_member(details, "error_code"), message=text_member(error, "message")
    )
