"""The official `anthropic` SDK as the oracle: the same bytes, read by those who wrote them.

Only tests import this; the SDK takes more than a second to load.
"""

import httpx2
import msgspec
from anthropic import AsyncAnthropic

from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.json import Json
from hames.domain.request import StopReason
from hames.domain.usage import Usage
from hames.testing.services.anthropic import WORDS
from hames.testing.services.outcome import Outcome
from oracles.canned import CannedTransport

REASONS: dict[str, StopReason] = {"stop_sequence": "end", **{word: reason for reason, word in WORDS.items()}}


async def read_by_sdk(chunks: list[bytes]) -> Outcome:
    """What the SDK's own accumulator makes of a stream. Raises whatever the SDK raises."""
    client = AsyncAnthropic(
        api_key="test",
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=CannedTransport(chunks), trust_env=False),
    )
    async with client.messages.stream(
        model="claude-test", max_tokens=1, messages=[{"role": "user", "content": "?"}]
    ) as stream:
        message = await stream.get_final_message()
    read = message.to_dict(mode="json")
    content: list[Json] = [block for block in _list(read["content"]) if isinstance(block, dict)]
    usage = read["usage"] if isinstance(read["usage"], dict) else {}
    details = usage.get("output_tokens_details")
    word = read.get("stop_reason")
    return Outcome(
        texts=tuple(block["text"] for block in content if block["type"] == "text" and block["text"]),
        thoughts=tuple(block["thinking"] for block in content if block["type"] == "thinking" and block["thinking"]),
        opaques=tuple(
            {"signature": block["signature"]} if block["type"] == "thinking" else {"redacted": block["data"]}
            for block in content
            if block["type"] in ("thinking", "redacted_thinking")
        ),
        calls=tuple(
            Call(id=CallId(block["id"]), name=block["name"], arguments=msgspec.json.encode(block["input"]).decode())
            for block in content
            if block["type"] == "tool_use"
        ),
        searches=tuple(str(block["input"].get("query", "")) for block in content if block["type"] == "server_tool_use"),
        usage=Usage(
            input_tokens=_count(usage, "input_tokens"),
            output_tokens=_count(usage, "output_tokens"),
            thinking_tokens=_count(details if isinstance(details, dict) else {}, "thinking_tokens"),
            cache_read_tokens=_count(usage, "cache_read_input_tokens"),
            cache_write_tokens=_count(usage, "cache_creation_input_tokens"),
        ),
        reason=REASONS.get(word, "unknown") if isinstance(word, str) else "unknown",
        word=word if isinstance(word, str) else "",
    )


async def accepted_by_sdk(body: Json) -> Json:
    """The request the SDK would send for the same arguments. Raises where the SDK knows no such argument."""
    transport = CannedTransport([b'event: message_stop\ndata: {"type": "message_stop"}\n\n'])
    client = AsyncAnthropic(
        api_key="test", max_retries=0, http_client=httpx2.AsyncClient(transport=transport, trust_env=False)
    )
    async for _ in await client.messages.create(**body):
        pass
    return msgspec.json.decode(transport.requests[0].content)


def _list(value: object) -> list[Json]:
    return value if isinstance(value, list) else []


def _count(usage: dict[str, Json], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0
