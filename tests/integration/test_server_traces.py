"""Traces: a turn, its model calls and its tools as spans, and nobody's words in them."""

from pathlib import Path

import pytest

from hames.clock_and_ids import SystemClock
from hames.observe.traces import Traces, set_up
from hames.testing.fakes.model import ScriptedModel, call, fail, say, usage
from support import BROKEN, ECHO, created, engine, whole_turn

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="needs opentelemetry-sdk")


def exported() -> tuple[Traces, "list[object]"]:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Traces(provider.get_tracer("test")), exporter


async def test_a_turn_is_a_span_with_its_calls_and_tools_inside(tmp_path: Path) -> None:
    traces, exporter = exported()
    model = ScriptedModel(
        [call("echo", text="secret words"), usage(input_tokens=5, output_tokens=2, cache_read_tokens=10)],
        [call("broken"), usage(input_tokens=1, output_tokens=1)],
        [say("secret answer"), usage(input_tokens=7, output_tokens=3)],
    )
    async with engine(model, ECHO, BROKEN, clock=SystemClock()) as house:
        house.observers.append(traces.observe)
        thread = await created(house)
        await whole_turn(house, thread.id, "secret prompt")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    turn = spans["invoke_agent code"]
    assert turn.attributes["gen_ai.conversation.id"] == thread.id
    assert (turn.attributes["gen_ai.provider.name"], turn.attributes["gen_ai.request.model"]) == ("scripted", "test")
    assert (turn.attributes["gen_ai.usage.input_tokens"], turn.attributes["gen_ai.usage.output_tokens"]) == (23, 6)
    assert turn.attributes["gen_ai.response.finish_reasons"] == ("end",)
    chats = [span for span in exporter.get_finished_spans() if span.name == "chat test"]
    assert len(chats) == 3
    good, bad = spans["execute_tool echo"], spans["execute_tool broken"]
    assert good.status.is_unset
    assert (bad.status.is_ok, bad.attributes["error.type"]) == (False, "failed")
    for inner in (*chats, good, bad):
        assert inner.parent.span_id == turn.context.span_id
        assert turn.start_time <= inner.start_time <= inner.end_time <= turn.end_time
    assert "secret" not in repr([span.to_json() for span in exporter.get_finished_spans()])


async def test_a_failed_turn_is_a_failed_span() -> None:
    traces, exporter = exported()
    async with engine(ScriptedModel([fail("no", info="Unauthorized")]), clock=SystemClock()) as house:
        house.observers.append(traces.observe)
        thread = await created(house)
        await whole_turn(house, thread.id)
    [turn] = exporter.get_finished_spans()
    assert turn.attributes["error.type"] == "Unauthorized"


def test_nothing_is_traced_unless_somebody_asked() -> None:
    assert set_up({}, version="0") is None
    traces = set_up({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, version="0")
    assert traces is not None
    traces.close()
