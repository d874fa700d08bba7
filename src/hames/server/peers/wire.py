"""What processes on one data directory say to each other: a JSON object per line.

A message with an `id` is answered by one with the same `id`. Commands and answers are the engine's own values, so both
processes should be of one version; a field that the other one does not know is passed over.
"""

from typing import Literal, get_args

import msgspec

from hames.domain import errors
from hames.domain.commands import Command, Standing
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId
from hames.domain.items import ToolResult
from hames.domain.value import Value
from hames.ports import ClientToolCall, PeerAnswer

LINE_BYTES = 64 << 20
"""A prompt may have pictures."""

_encode = msgspec.json.Encoder().encode
_COMMANDS: dict[str, type[Command]] = {one.__name__: one for one in get_args(Command)}
_ERRORS = {name: one for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, HarnessError)}


class PeerRequest(Value, omit_defaults=True):
    do: Literal[
        "owns", "standings", "execute", "viewing", "send_news", "news", "tool_rank", "call_tool", "withdraw_call"
    ]
    """The process that was connected to says `news` to whoever asked for it with `send_news`, and the last three to
    processes whose clients may carry out tools: `withdraw_call` has the id of the call that is over."""
    id: int = 0
    thread_id: ThreadId = ThreadId("")
    command: str = ""
    body: msgspec.Raw = msgspec.Raw(b"null")
    key: str = ""
    seen: int = 0
    repeated: bool = False
    answers: bool | None = None


class PeerReply(Value, omit_defaults=True):
    id: int
    owns: bool = False
    standings: dict[ThreadId, Standing] = {}
    answer: PeerAnswer | None = None
    tool_rank: int = 0
    result: ToolResult | None = None
    error: str = ""
    """The name of its class."""
    words: str = ""


class _Kind(Value):
    do: str = ""


_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_request = msgspec.json.Decoder(PeerRequest).decode


def encode_line(message: PeerRequest | PeerReply) -> bytes:
    return _encode(message) + b"\n"


def decode_line(line: bytes) -> PeerRequest | PeerReply | None:
    """None: it is neither, or of another version."""
    try:
        return _decode_request(line) if _decode_kind(line).do else msgspec.json.decode(line, type=PeerReply)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def command_request(number: int, command: Command, key: str, seen: int, *, repeated: bool = False) -> PeerRequest:
    body, name = msgspec.Raw(_encode(command)), type(command).__name__
    return PeerRequest(do="execute", id=number, command=name, body=body, key=key, seen=seen, repeated=repeated)


def decode_command(request: PeerRequest) -> Command:
    """Raises `HarnessError`."""
    kind = _COMMANDS.get(request.command)
    try:
        if kind is not None:
            return msgspec.json.decode(request.body, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    raise HarnessError(
        f"the process that holds the thread does not know this {request.command or 'command'}: it is of another version"
    )


def call_request(number: int, call: ClientToolCall) -> PeerRequest:
    return PeerRequest(do="call_tool", id=number, thread_id=call.thread_id, body=msgspec.Raw(_encode(call)))


def decode_call(request: PeerRequest) -> ClientToolCall | None:
    """None: it was sent by another version and cannot be read."""
    try:
        return msgspec.json.decode(request.body, type=ClientToolCall)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def refusal(number: int, error: HarnessError) -> PeerReply:
    return PeerReply(id=number, error=type(error).__name__, words=str(error))


def raised(reply: PeerReply) -> HarnessError:
    """The error that the other process raised."""
    return _ERRORS.get(reply.error, HarnessError)(reply.words)
