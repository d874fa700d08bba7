"""OpenAI's Responses API, read with our own lean decoder. The official SDK is the oracle in the tests.

Reasoning comes encrypted for the key and the model it was made with. When the service refuses earlier
reasoning, the request is sent once more without it.
"""

import re

from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.request import ModelRequest
from hames.ports import Clock
from hames.providers import failures
from hames.providers.base import ReasoningProvider, checked_key
from hames.providers.failures import ServiceInfo, ServiceRefusal
from hames.providers.openai import errors, models
from hames.providers.openai.request import encode
from hames.providers.openai.stream import OpenAIStream
from hames.providers.retry import PATIENCE, Patience


class OpenAIProvider(ReasoningProvider):
    name = models.PROVIDER
    path = "/responses"
    reasoning_refusal = re.compile(
        r"(?i)encrypted[ _]content|\brs_\w+|reasoning.*(not found|without its required|could not be verified)"
    )

    def __init__(
        self, *, clock: Clock, api_key: str, base_url: str = models.BASE_URL, patience: Patience = PATIENCE
    ) -> None:
        """Raises `Misconfigured`."""
        api_key = checked_key(api_key, "OPENAI_API_KEY")
        if not api_key:
            raise Misconfigured(failures.no_key("OpenAI", self.name, "OPENAI_API_KEY"))
        service = ServiceInfo(
            name="the OpenAI API",
            provider=self.name,
            key_variable="OPENAI_API_KEY",
            url=base_url,
            url_variable="OPENAI_BASE_URL",
            models=models.current(),
            secrets=(api_key,),
        )
        super().__init__(service, {"authorization": f"Bearer {api_key}"}, clock=clock, patience=patience)

    def _encode(self, request: ModelRequest, form: bool) -> bytes:
        return encode(request, reasoning=form)

    def _reply_reader(self, request: ModelRequest) -> OpenAIStream:  # noqa: ARG002
        return OpenAIStream(lambda error: failures.provider_error(self._service, errors.read_stream_error(error)))

    def _read_error(self, body: Json) -> ServiceRefusal:
        return errors.read_error_body(body)
