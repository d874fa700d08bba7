"""An HTTP transport for SDK clients that answers every request with the same bytes."""

from collections.abc import AsyncGenerator

import httpx2


class _Bytes(httpx2.AsyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        for chunk in self._chunks:
            yield chunk


class CannedTransport(httpx2.AsyncBaseTransport):
    """Answers every request with the same bytes, and keeps what it was asked."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.requests: list[httpx2.Request] = []
        self._chunks = chunks

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        return httpx2.Response(200, headers=headers, stream=_Bytes(self._chunks))
