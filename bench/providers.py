"""What reading a model's stream costs, next to the official SDK.

    python bench/providers.py [DELTAS]

A loopback service in a process of its own streams a reply of DELTAS text deltas: once as one
HTTP chunk per event, as a live model sends it, and once in large chunks. Each reader runs in a
process of its own. CPU is the reader's; `first` is from the request to the first text, on a
provider that is warm; `cold` is a whole first reply, importing and building included. Best of ROUNDS.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

ROUNDS = 5


def sse(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n"


MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-test",
    "content": [],
    "stop_reason": None,
}
START = sse({"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 1}}}) + sse(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
)
EVENT = sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}})
END = (
    sse({"type": "content_block_stop", "index": 0})
    + sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})
    + sse({"type": "message_stop"})
)
Attempts = AsyncGenerator[tuple[float, float], None]
READERS = ("decoder", "hames", "sdk create", "sdk stream")


def serve(deltas: int, *, per_chunk: int) -> None:
    """Prints its port, then answers every request with the same stream."""
    events = [START, *[EVENT] * deltas, END]
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
        while data := connection.recv(65536):
            buffered += data
            header, mark, rest = buffered.partition(b"\r\n\r\n")
            if not mark:
                continue
            length = int(header.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(rest) >= length:
                buffered = rest[length:]
                connection.sendall(reply)


def read(reader: str, deltas: int, url: str) -> None:
    """One reader in this process. Prints what it measured."""
    import anyio

    begin = time.perf_counter()
    run = {"decoder": decoder, "hames": hames, "sdk create": sdk_create, "sdk stream": sdk_stream}[reader]
    anyio.run(measured, run(url, deltas), deltas, begin)


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


async def decoder(url: str, deltas: int) -> Attempts:
    from hames.providers.anthropic_stream import AnthropicStream

    data = (START + EVENT * deltas + END).encode()
    for _ in range(ROUNDS + 1):
        stream, cpu = AnthropicStream(ValueError), time.process_time()
        for at in range(0, len(data), 65536):
            stream.feed(data[at : at + 65536])
        yield 0.0, time.process_time() - cpu


class SystemClock:
    def now_ms(self) -> int:
        return round(time.time() * 1000)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import anyio

        await anyio.sleep(seconds)


async def hames(url: str, deltas: int) -> Attempts:
    from hames.domain.request import Message, ModelRequest, TextBlock, TextDelta
    from hames.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(api_key="test", base_url=url, clock=SystemClock())
    await provider.warm()
    request = ModelRequest(model="claude-sonnet-5-5", messages=(Message(role="user", blocks=(TextBlock(text="go"),)),))
    for _ in range(ROUNDS + 1):
        begin, cpu, first, length = time.perf_counter(), time.process_time(), 0.0, 0
        async for event in provider.stream(request):
            if type(event) is TextDelta:
                first = first or time.perf_counter() - begin
                length += len(event.text)
        assert length == deltas * 5
        yield first, time.process_time() - cpu
    await provider.aclose()


async def sdk_create(url: str, deltas: int) -> Attempts:
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
        assert length == deltas * 5
        yield first, time.process_time() - cpu


async def sdk_stream(url: str, deltas: int) -> Attempts:
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic(api_key="test", base_url=url)
    for _ in range(ROUNDS + 1):
        begin, cpu, first, length = time.perf_counter(), time.process_time(), 0.0, 0
        async with client.messages.stream(
            model="claude-sonnet-5-5", max_tokens=10, messages=[{"role": "user", "content": "go"}]
        ) as stream:
            async for text in stream.text_stream:
                first = first or time.perf_counter() - begin
                length += len(text)
        assert length == deltas * 5
        yield first, time.process_time() - cpu


def main(deltas: int) -> None:
    print(f"{deltas} deltas, best of {ROUNDS}")
    for per_chunk, how in ((1, "one event per HTTP chunk"), (500, "500 events per HTTP chunk")):
        me = [sys.executable, __file__]
        with subprocess.Popen([*me, "serve", str(deltas), str(per_chunk)], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
            print(how)
            for reader in READERS:
                run = subprocess.run(
                    [*me, "read", reader, str(deltas), url], capture_output=True, text=True, check=True, timeout=600
                )
                print(f"  {reader:12} {run.stdout.strip()}")
            server.kill()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", deltas, per_chunk]:
            serve(int(deltas), per_chunk=int(per_chunk))
        case ["read", reader, deltas, url]:
            read(reader, int(deltas), url)
        case rest:
            main(int(rest[0]) if rest else 5000)
