"""A model service on a loopback port, for tests that start `hames` as a process: a list of models, and one answer.

It speaks Anthropic's Messages at `/v1/messages` and chat completions everywhere else.
"""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "Hello from here."
REFUSAL = {"error": {"type": "authentication_error", "message": "Incorrect API key provided: wron****************key."}}


class _Server(ThreadingHTTPServer):
    def __init__(self, models: Sequence[str], key: str, locked: str, tokens: tuple[int, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = [{"id": name, "type": "model", "display_name": name} for name in models]
        self.key = key
        self.locked = locked
        self.tokens = tokens


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if not self.path.partition("?")[0].endswith("/v1/models"):
            return self._send(404, {"error": {"message": "nothing here"}})
        if not self._may_enter():
            return self._send(401, {"type": "error", **REFUSAL})
        return self._send(200, {"data": self.server.models, "has_more": False})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        read, written = self.server.tokens
        if self.path.partition("?")[0].endswith("/v1/messages"):
            for event in _anthropic(read, written):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        else:
            delta = {"choices": [{"index": 0, "delta": {"content": ANSWER}, "finish_reason": "stop"}]}
            self.wfile.write(f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode())

    def _may_enter(self) -> bool:
        given = (self.headers.get("x-api-key"), (self.headers.get("authorization") or "").removeprefix("Bearer "))
        return not self.server.key or not self.path.startswith(self.server.locked) or self.server.key in given

    def _send(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


def _anthropic(read: int, written: int) -> list[dict[str, object]]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    return [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": read, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": written}},
        {"type": "message_stop"},
    ]


@contextmanager
def model_server(*models: str, key: str = "", locked: str = "", tokens: tuple[int, int] = (12, 7)) -> Generator[str]:
    """Its address. With a `key` it is needed below the path `locked`; `tokens` are those of an answer, in and out."""
    server = _Server(models, key, locked, tokens)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
