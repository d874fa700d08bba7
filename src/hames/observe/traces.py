"""Traces for OpenTelemetry, by its conventions for generative AI: a span for every turn, model call and tool.

Only where the environment names a collector (`OTEL_EXPORTER_OTLP_ENDPOINT`) and the packages are installed: nothing is
imported otherwise. What people and models say is in no span.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hames.domain import events, items
from hames.domain.ids import ItemId, ThreadId
from hames.domain.state import Change
from hames.domain.usage import Usage

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
NANOSECONDS = 1_000_000
"""In a millisecond."""

Attributes = dict[str, Any]


class Traces:
    """An observer of every thread."""

    def __init__(self, tracer: "Tracer", *, shut_down: Any = None) -> None:
        self._tracer = tracer
        self._shut_down = shut_down
        self._turns: dict[ThreadId, _Turn] = {}

    def observe(self, change: Change) -> None:
        event, record = change.record.event, change.record
        if isinstance(event, events.ItemDelta):  # first, because a token is by far the most frequent event
            return
        at, turn = record.at_ms * NANOSECONDS, self._turns.get(record.thread_id)
        match event:
            case events.TurnStarted(kind=kind):
                self._turns[record.thread_id] = _Turn(self._tracer, change, kind, at)
            case events.ItemStarted(item=item) if turn is not None and (named := _tool_name(item)):
                turn.start_tool(item.id, named, getattr(item, "call_id", "") or item.id, at)
            case events.ItemCompleted(item=item) if turn is not None:
                turn.end_tool(item, at)
            case events.UsageReported(model=model, usage=usage) if turn is not None:
                turn.model_call(model, usage, at)
            case events.TurnEnded() if turn is not None:
                del self._turns[record.thread_id]
                turn.end(event, at)
            case _:
                pass

    def close(self) -> None:
        """Sends what was not sent yet."""
        if self._shut_down is not None:
            self._shut_down()


class _Turn:
    def __init__(self, tracer: "Tracer", change: Change, kind: str, at: int) -> None:
        settings = change.after.settings
        self._tracer = tracer
        self._since = at
        self._used = Usage()
        self._tools: dict[ItemId, Span] = {}
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": settings.model.partition("/")[0],
            "gen_ai.request.model": settings.model.partition("/")[2],
            "gen_ai.agent.name": settings.agent,
            "gen_ai.conversation.id": change.record.thread_id,
            "hames.turn.kind": kind,
        }
        self._span = tracer.start_span(f"invoke_agent {settings.agent}", start_time=at, attributes=attributes)

    def _child(self, name: str, attributes: Attributes, at: int) -> "Span":
        from opentelemetry.trace import set_span_in_context

        return self._tracer.start_span(
            name, context=set_span_in_context(self._span), start_time=at, attributes=attributes
        )

    def start_tool(self, item_id: ItemId, name: str, call_id: str, at: int) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
        }
        self._tools[item_id] = self._child(f"execute_tool {name}", attributes, at)

    def end_tool(self, item: items.Item, at: int) -> None:
        span = self._tools.pop(item.id, None)
        if span is None:
            return
        if item.status in ("failed", "declined", "interrupted"):
            _fail(span, item.status)
        span.end(at)
        self._since = at

    def model_call(self, model: str, usage: Usage, at: int) -> None:
        """From the end of what came before it to its bill."""
        self._used += usage
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": model.partition("/")[0],
            "gen_ai.request.model": model.partition("/")[2],
            **_usage_attributes(usage),
        }
        self._child(f"chat {model.partition('/')[2]}", attributes, self._since).end(at)
        self._since = at

    def end(self, event: events.TurnEnded, at: int) -> None:
        for span in self._tools.values():
            _fail(span, "interrupted")
            span.end(at)
        self._span.set_attributes(_usage_attributes(self._used))
        if event.stop_reason:
            self._span.set_attribute("gen_ai.response.finish_reasons", (event.stop_reason,))
        if event.status != "completed":
            _fail(self._span, event.error.info if event.error else event.status)
        self._span.end(at)


def _tool_name(item: items.Item) -> str:
    match item:
        case items.UserMessage() | items.AgentMessage() | items.Reasoning():
            return ""
        case items.CommandExecution():
            return "shell"
        case items.FileChange():
            return "edit"
        case items.McpToolCall(server=server, tool=tool):
            return f"{server}.{tool}"
        case items.ToolCall(name=name):
            return name
        case items.WebSearch() | items.Plan() | items.Artifact() | items.Compaction():
            return type(item).__name__.lower()


def _usage_attributes(usage: Usage) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
    }


def _fail(span: "Span", word: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", word)
    span.set_status(StatusCode.ERROR)


def set_up(environment: Mapping[str, str], *, version: str) -> Traces | None:
    """None: nobody asked for traces, or what it takes is not installed."""
    if not any(environment.get(name) for name in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as missing:
        log.warning("traces.unavailable", extra={"why": str(missing), "install": "hames[otel]"})
        return None
    provider = TracerProvider(resource=Resource.create({"service.name": "hames", "service.version": version}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider.get_tracer("hames", version), shut_down=provider.shutdown)
