"""What reading a model's stream costs in each dialect, next to the official SDK and up to the log.

    python bench/providers.py [DELTAS]

A loopback service in a process of its own streams a reply of DELTAS text deltas: once as one
HTTP chunk per event, as a live model sends it, and once in large chunks. Each reader runs in a
process of its own: the decoder alone, our provider, the engine with its log on disk (a whole turn),
and the SDK. CPU is the reader's; `first` is from the request to the first text, on a provider that is
warm; `cold` is a whole first reply, importing and building included. Best of ROUNDS.
"""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

ROUNDS = 5
WORD = "word "


def sse(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n"


def data(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event, separators=(',', ':'))}\n\n"


def anthropic_stream() -> tuple[str, str, str]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    start = sse(
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    ) + sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    event = sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORD}})
    end = (
        sse({"type": "content_block_stop", "index": 0})
        + sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})
        + sse({"type": "message_stop"})
    )
    return start, event, end


def openai_stream() -> tuple[str, str, str]:
    reply = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "in_progress",
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "sequence_number": 9}
    text = {"type": "output_text", "text": "", "annotations": []}
    counts = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    done = {**reply, "status": "completed", "usage": {**counts, **details}}
    start = (
        sse({"type": "response.created", "sequence_number": 0, "response": reply})
        + sse({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item})
        + sse({"type": "response.content_part.added", **where, "part": text})
    )
    noise = {"logprobs": [], "obfuscation": "aB3dE5fG7hI9"}
    event = sse({"type": "response.output_text.delta", **where, "delta": WORD, **noise})
    end = sse(
        {"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": {**item, "content": []}}
    ) + sse({"type": "response.completed", "sequence_number": 3, "response": done})
    return start, event, end


def chat_stream() -> tuple[str, str, str]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        return data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    end = chunk({}, "stop") + data({**head, "choices": [], "usage": usage}) + "data: [DONE]\n\n"
    return chunk({"role": "assistant", "content": ""}), chunk({"content": WORD}), end


STREAMS = {"anthropic": anthropic_stream, "openai": openai_stream, "chat": chat_stream}
READERS = ("decoder", "hames", "engine", "sdk")
Attempts = AsyncGenerator[tuple[float, float], None]


def serve(dialect: str, deltas: int, *, per_chunk: int) -> None:
    """Prints its port, then answers every request with the same stream."""
    start, event, end = STREAMS[dialect]()
    events = [start, *[event] * deltas, end]
    chunks = ["".join(events[at : at + per_chunk]).encode() for at in range(0, len(events), per_chunk)]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection, head + body), daemon=True).start()


def answer(connection: socket.socket, reply: bytes) -> None:
    with connection:
        buffered = b""
        while received := connection.recv(65536):
            buffered += received
            header, mark, rest = buffered.partition(b"\r\n\r\n")
            if not mark:
                continue
            length = int(header.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(rest) >= length:
                buffered = rest[length:]
                connection.sendall(reply)


def read(dialect: str, reader: str, deltas: int, url: str) -> None:
    """One reader in this process. Prints what it measured."""
    import anyio

    begin = time.perf_counter()
    run = {"decoder": decoder, "hames": hames, "engine": engine, "sdk": SDKS[dialect]}[reader]
    anyio.run(measured, run(dialect, url, deltas), deltas, begin)


async def measured(attempts: Attempts, deltas: int, begin: float) -> None:
    firsts, cpus, cold = list[float](), list[float](), 0.0
    async for first, cpu in attempts:
        cold = cold or time.perf_counter() - begin
        firsts.append(first)
        cpus.append(cpu / deltas)
    figures = {
        "cpu_us_per_event": round(min(cpus) * 1e6, 2),
        "first_ms": round(min(firsts[1:]) * 1e3, 2),
        "cold_ms": round(cold * 1e3, 1),
    }
    print(json.dumps(figures))


async def decoder(dialect: str, url: str, deltas: int) -> Attempts:
    from hames.providers.anthropic.stream import AnthropicStream
    from hames.providers.chat.stream import ChatStream
    from hames.providers.openai.stream import OpenAIStream

    kind: Any = {"anthropic": AnthropicStream, "openai": OpenAIStream, "chat": ChatStream}[dialect]
    start, event, end = STREAMS[dialect]()
    whole = (start + event * deltas + end).encode()
    for _ in range(ROUNDS + 1):
        stream, cpu = kind(ValueError), time.process_time()
        for at in range(0, len(whole), 65536):
            stream.feed(whole[at : at + 65536])
        assert stream.ended
        yield 0.0, time.process_time() - cpu


MODELS = {"anthropic": "anthropic/claude-sonnet-5-5", "openai": "openai/gpt-6.1-sol", "chat": "local/m"}


def catalogue(url: str) -> Any:
    from hames.clock_and_ids import SystemClock
    from hames.providers.catalogue import Catalogue

    environment = {
        "ANTHROPIC_API_KEY": "test",
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_API_KEY": "test",
        "OPENAI_BASE_URL": f"{url}/v1",
        "LOCAL_BASE_URL": f"{url}/v1",
    }
    return Catalogue(environment, clock=SystemClock())


async def hames(dialect: str, url: str, deltas: int) -> Attempts:
    from hames.domain.request import Message, ModelRequest, TextBlock, TextDelta

    models = catalogue(url)
    card = models.find(MODELS[dialect])
    provider = models.provider(card)
    await provider.warm()
    request = ModelRequest(model=card.model, messages=(Message(role="user", blocks=(TextBlock(text="go"),)),))
    for _ in range(ROUNDS + 1):
        begin, cpu, first, length = time.perf_counter(), time.process_time(), 0.0, 0
        async for event in provider.stream(request):
            if type(event) is TextDelta:
                first = first or time.perf_counter() - begin
                length += len(event.text)
        assert length == deltas * len(WORD)
        yield first, time.process_time() - cpu
    await models.aclose()


class NoTools:
    def open(self, place: Any, report: Any) -> Any:
        from contextlib import nullcontext

        return nullcontext(())


async def engine(dialect: str, url: str, deltas: int) -> Attempts:
    """A whole turn: provider, loop, fold, log on disk, one watcher."""
    from hames.clock_and_ids import RandomIds, SystemClock
    from hames.core.engine import Engine
    from hames.core.engine_rules import EngineRules
    from hames.domain.commands import CreateThread, StartTurn
    from hames.domain.events import ItemDelta, TurnEnded
    from hames.domain.items import TextInput
    from hames.domain.options import Settings
    from hames.sandbox.trust.shell_trust import ShellTrust
    from hames.store.jsonl import JsonlStore
    from hames.store.places import Places
    from hames.tools.files.workspace import LocalWorkspace

    models = catalogue(url)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        running = Engine(
            store=JsonlStore(root / "data", places=Places(root / "state")),
            models=models,
            workspace=LocalWorkspace(),
            tools=NoTools(),
            trust=ShellTrust(),
            clock=SystemClock(),
            ids=RandomIds(),
            rules=EngineRules(defaults=Settings(model=MODELS[dialect], cwd=directory)),
        )
        async with running:
            for _ in range(ROUNDS + 1):
                thread: Any = await running.execute(CreateThread())
                watcher = await running.watch(thread.id)
                begin, cpu, first, length, over = time.perf_counter(), time.process_time(), 0.0, 0, False
                await running.execute(StartTurn(thread_id=thread.id, content=(TextInput(text="go"),)))
                while not over:
                    for change in await watcher.next():
                        event = change.record.event
                        if isinstance(event, ItemDelta):
                            first = first or time.perf_counter() - begin
                            length += len(event.text)
                        elif isinstance(event, TurnEnded):
                            assert event.status == "completed", event
                            over = True
                assert length == deltas * len(WORD), length
                yield first, time.process_time() - cpu
    await models.aclose()


async def sdk_anthropic(dialect: str, url: str, deltas: int) -> Attempts:
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic(api_key="test", base_url=url)
    for _ in range(ROUNDS + 1):
        begin, cpu, first, length = time.perf_counter(), time.process_time(), 0.0, 0
        async for event in await client.messages.create(
            model="claude-sonnet-5-5", max_tokens=10, stream=True, messages=[{"role": "user", "content": "go"}]
        ):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                first = first or time.perf_counter() - begin
                length += len(event.delta.text)
        assert length == deltas * len(WORD)
        yield first, time.process_time() - cpu


async def sdk_openai(dialect: str, url: str, deltas: int) -> Attempts:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="test", base_url=f"{url}/v1")
    for _ in range(ROUNDS + 1):
        begin, cpu, first, length = time.perf_counter(), time.process_time(), 0.0, 0
        async for event in await client.responses.create(model="m", input="go", stream=True):
            if event.type == "response.output_text.delta":
                first = first or time.perf_counter() - begin
                length += len(event.delta)
        assert length == deltas * len(WORD)
        yield first, time.process_time() - cpu


async def sdk_chat(dialect: str, url: str, deltas: int) -> Attempts:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="test", base_url=f"{url}/v1")
    for _ in range(ROUNDS + 1):
        begin, cpu, first, length = time.perf_counter(), time.process_time(), 0.0, 0
        async for event in await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "go"}], stream=True
        ):
            if event.choices and event.choices[0].delta.content:
                first = first or time.perf_counter() - begin
                length += len(event.choices[0].delta.content)
        assert length == deltas * len(WORD)
        yield first, time.process_time() - cpu


SDKS = {"anthropic": sdk_anthropic, "openai": sdk_openai, "chat": sdk_chat}


def main(deltas: int) -> None:
    print(f"{deltas} deltas, best of {ROUNDS}")
    me = [sys.executable, __file__]
    for dialect in STREAMS:
        for per_chunk, how in ((1, "one event per HTTP chunk"), (500, "500 events per HTTP chunk")):
            serving = [*me, "serve", dialect, str(deltas), str(per_chunk)]
            with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout
                url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
                print(f"{dialect}, {how}")
                for reader in READERS:
                    run = subprocess.run(
                        [*me, "read", dialect, reader, str(deltas), url],
                        capture_output=True,
                        text=True,
                        check=False,
                        timeout=600,
                    )
                    print(f"  {reader:8} {run.stdout.strip() or run.stderr.strip()[-400:]}", flush=True)
                    if run.returncode:
                        sys.exit(1)
                server.kill()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", dialect, deltas, per_chunk]:
            serve(dialect, int(deltas), per_chunk=int(per_chunk))
        case ["read", dialect, reader, deltas, url]:
            read(dialect, reader, int(deltas), url)
        case rest:
            main(int(rest[0]) if rest else 5000)
