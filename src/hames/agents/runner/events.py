"""A runner's event stream, read: bytes in, named objects out. It may be anybody's runner, so nothing is taken on trust.

Only the names of the specification are needed; members that are missing are empty, events that are unknown are skipped.
"""

from collections.abc import Iterator

import msgspec

from hames.codecs.sse import SseDecoder
from hames.domain.approvals import CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.items import Compaction, FileUpdate, McpToolCall, Plan, WebSearch
from hames.domain.json import Json
from hames.domain.usage import Usage
from hames.domain.value import Value

EVENT_BYTES = 4 << 20


class Told(Value, rename="camel"):
    """Whatever an event may carry. `text` is what a delta adds, under either name that runners use."""

    text: str = ""
    delta: str = ""
    id: str = ""
    name: str = ""
    kind: str = ""
    input: Json = None
    command: str = ""
    cwd: str = ""
    changes: tuple[FileUpdate, ...] = ()
    result: Json = None
    error: Json = None
    message: str = ""
    info: str = ""
    outcome: str = ""
    exit_code: int | None = None
    duration_ms: int | None = None
    stop_reason: str = ""
    usage: Usage = Usage()
    run_id: str = ""
    stream: str = ""
    detail: Plan | McpToolCall | WebSearch | Compaction | None = None
    http_status: int | None = None
    severity: str = ""
    item: str = ""
    intent: RunCommand | ChangeFiles | CallMcp | UseTool | Elicit | None = None
    reason: str = ""


class EventParser:
    """Feed it chunks, take out pairs of name and object.

    >>> parser = EventParser()
    >>> [(name, told.text) for name, told in parser.feed(b'event: assistant.delta\\ndata: {"text": "Hi"}\\n\\n')]
    [('assistant.delta', 'Hi')]
    """

    def __init__(self) -> None:
        self._decoder = SseDecoder(event_bytes=EVENT_BYTES)

    def feed(self, chunk: bytes) -> Iterator[tuple[str, Told]]:
        """Raises `EventTooLong`."""
        for name, data in self._decoder.feed(chunk):
            if (event := _read(name.decode("utf-8", "replace"), data)) is not None:
                yield event


def _read(name: str, data: bytes) -> tuple[str, Told] | None:
    try:
        told = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    # Some runners name their events inside the object.
    name = name or (told["type"] if isinstance(told.get("type"), str) else "")
    return name, _convert(told)


def _convert(told: dict[str, Json]) -> Told:
    """Member by member: one that has the wrong type is missing, and the rest still counts."""
    good: dict[str, Json] = {}
    for field in msgspec.structs.fields(Told):
        if field.encode_name in told:
            try:
                good[field.name] = msgspec.convert(told[field.encode_name], field.type)
            except msgspec.ValidationError:
                continue
    return Told(**good)
