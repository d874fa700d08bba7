"""Any server that speaks chat completions: Ollama, llama.cpp, vLLM, LM Studio, OpenRouter and their kind.

The words with which servers refuse tools are recognised, and the error says what to do. A server that refuses
what only some understand (a count of tokens, earlier reasoning) is asked once more without it, and from then on
is asked without it at once.
"""

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from hames.domain.errors import Misconfigured, ProviderError
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.request import ModelRequest
from hames.ports import Clock
from hames.providers import failures
from hames.providers.base import HttpProvider, checked_key
from hames.providers.chat.request import RequestForm, encode
from hames.providers.chat.servers import ChatServer
from hames.providers.chat.stream import ChatStream
from hames.providers.failures import ServiceInfo, ServiceRefusal
from hames.providers.openai import errors
from hames.providers.retry import PATIENCE, Patience

_NO_TOOLS = re.compile(
    r"(?i)(?:does not|doesn't|do not|not) support (?:the )?(?:use of )?(?:tool|function)|support tool use"
    r"|tools? (?:param\w*|choice) requires|enable-auto-tool-choice|requires --jinja"
    r"|(?:tools?|tool calls?|tool calling|tool use|function calling|functions) (?:is|are) not (?:supported|available)"
    r"|(?:unsupported|unknown|unrecognized) (?:parameter|argument|field|request argument supplied)\W{1,4}tools?\b"
)
_UNWANTED_COUNT = re.compile(r"(?i)stream_options|include_usage")
_OTHER_BOUND = re.compile(r"max_completion_tokens")
_UNWANTED_THOUGHT = re.compile(r"(?i)reasoning(?:_content)?\b")


class ChatProvider(HttpProvider[RequestForm]):
    """`card` tells what is known of a model; without it, everything is tried."""

    path = "/chat/completions"

    def __init__(
        self,
        server: ChatServer,
        *,
        clock: Clock,
        url: str = "",
        api_key: str = "",
        extra: Mapping[str, Json] | None = None,
        card: Callable[[str], ModelCard] | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        """Raises `Misconfigured`."""
        api_key, url = checked_key(api_key, server.key_variable), url.strip() or server.url
        if not url:
            raise Misconfigured(failures.no_address(server.name, server.url_variable))
        if not api_key and server.needs_key:
            raise Misconfigured(failures.no_key(server.title, server.name, server.key_variable))
        service = ServiceInfo(
            name=server.title,
            provider=server.name,
            key_variable=server.key_variable,
            url=url,
            url_variable=server.url_variable,
            secrets=(api_key,) if api_key else (),
        )
        if not server.url:  # nobody knows its name: its address says which one it is
            service = replace(service, name=f"{server.title} at {service.address}")
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(service, headers, clock=clock, patience=patience)
        self.name = server.name
        self._server = server
        self._card = card
        self._form = RequestForm(provider=server.name, extra=extra or {})

    def _first_form(self, request: ModelRequest) -> RequestForm:
        if self._card is None:
            return self._form
        card = self._card(request.model)
        if request.tools and not card.tools:
            raise self._no_tools_error(request.model, "its list of models says so")
        return replace(self._form, images=card.images)

    def _encode(self, request: ModelRequest, form: RequestForm) -> bytes:
        return encode(request, form)

    def _simpler_form(self, form: RequestForm, error: ProviderError) -> RequestForm | None:
        if error.status not in (400, 422):
            return None
        if form.usage and _UNWANTED_COUNT.search(str(error)):
            form = replace(form, usage=False)
        elif form.bound == "max_tokens" and _OTHER_BOUND.search(str(error)):
            form = replace(form, bound="max_completion_tokens")
        elif form.provider and _UNWANTED_THOUGHT.search(str(error)):
            return replace(form, provider="")
        else:
            return None
        # Remembered: the next request would be refused for the same reason.
        self._form = replace(self._form, usage=form.usage, bound=form.bound)
        return form

    def _drops_reasoning(self, form: RequestForm, simpler: RequestForm) -> bool:
        return simpler.provider != form.provider

    def _reply_reader(self, request: ModelRequest) -> ChatStream:
        return ChatStream(lambda error: self._stream_error(error, request))

    def _read_error(self, body: Json) -> ServiceRefusal:
        return errors.read_error_body(body)

    def _refused(self, refusal: ServiceRefusal, request: ModelRequest, content_type: str) -> ProviderError:
        if request.tools and _NO_TOOLS.search(refusal.message):
            return self._no_tools_error(request.model, refusal.message, status=refusal.status)
        if refusal.status == 404 and not refusal.kind and "model" in refusal.message.lower():
            refusal = replace(refusal, kind="not_found")
        return super()._refused(refusal, request, content_type)

    def _stream_error(self, error: Json, request: ModelRequest) -> ProviderError:
        refusal = errors.read_stream_error(error)
        if request.tools and _NO_TOOLS.search(refusal.message):
            return self._no_tools_error(request.model, refusal.message)
        return failures.provider_error(self._service, refusal)

    def _no_tools_error(self, model: str, reason: str, *, status: int = 0) -> ProviderError:
        reason = failures.tidy(failures.redact(reason, self._service.secrets))
        return ProviderError(
            f"the model {model!r} at {self._service.address} cannot call tools, which hames needs; "
            f"use a model that can{self._server.tools_hint}: {reason}",
            status=status or None,
            info="BadRequest",
        )
