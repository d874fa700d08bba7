"""The first answer of a stdio server, before anything heavy is imported.

A client that starts a server waits for `initialize`. The answer needs none of the engine, so it is given
with what the bare interpreter has, and the rest is imported behind it. Only a plain, well-formed first line is
answered here, by the protocol's `plain_answer(params, flags)`; any other goes to the real peer, untouched.
`json` and `typing` would each nearly double the time, so neither is used: the C half of `json` suffices.
"""

import os
import sys
from select import select

from hames.stdio.descriptors import Start, claim

GREETINGS = {"harness": "hames.protocols.bootstrap.greeting", "app-server": "hames.cli.flint_answer"}
HEADS = {"harness": '{"jsonrpc":"2.0",', "app-server": "{"}
VALUED = ("--cwd", "--data-dir", "--model", "--approval-policy", "--sandbox", "--log-file", "--log-level")
"""Flags that are known to be harmless to the first answer; with any other the full parser comes first."""

AHEAD = ("asyncio", "msgspec", "anyio", "argparse", "logging", "hames.stdio.process", "hames.app")
"""What is needed next. Imported one by one while the client is silent."""

FIRST_LINE_BYTES = 65536


def start(words: list[str]) -> Start | None:
    """The wire, and perhaps the first answer. None: these words do not start a stdio server, or might not."""
    if not words or words[0] not in GREETINGS:
        return None
    stdio = words[0] == "app-server" and words[-2:] == ["--listen", "stdio://"]  # as most clients of Codex's start it
    if not _plain(words[1:-2] if stdio else words[1:]):
        return None
    wire = claim()
    received = _first_line(wire.incoming)
    line, _, rest = received.partition(b"\n")
    answer = _answer(words[0], words[1:], line)
    if answer is None:
        return Start(wire, received=received)
    _write(wire.outgoing, answer)
    return Start(wire, received=rest, answered=line)


def _plain(flags: list[str]) -> bool:
    """Whether all flags are known and have a value, and the directory exists."""
    while flags:
        name, equals, value = flags[0].partition("=")
        if name not in VALUED or not (equals or flags[1:]):
            return False
        if not equals:
            value = flags[1]
        if value.startswith("-") or (name == "--cwd" and not os.path.isdir(value)):  # noqa: PTH112 - pathlib is slow
            return False
        flags = flags[1:] if equals else flags[2:]
    return True


def _first_line(descriptor: int) -> bytes:
    """What the client has said so far: at least a line, unless it ended or everything else is ready first."""
    received = b""
    ahead = list(AHEAD)
    while b"\n" not in received and len(received) < FIRST_LINE_BYTES:
        if not select([descriptor], [], [], 0)[0]:
            if not ahead:
                break
            __import__(ahead.pop(0))
            continue
        chunk = os.read(descriptor, FIRST_LINE_BYTES)
        if not chunk:
            break
        received += chunk
    return received


def _answer(command: str, flags: list[str], line: bytes) -> bytes | None:
    message = _parsed(line)
    if not isinstance(message, dict) or not message.keys() <= {"jsonrpc", "id", "method", "params"}:
        return None
    if message.get("method") != "initialize" or type(message.get("id")) not in (int, str):
        return None
    if command == "harness" and message.get("jsonrpc") != "2.0":
        return None
    plain_answer = getattr(__import__(GREETINGS[command], fromlist=["plain_answer"]), "plain_answer", None)
    result = plain_answer(message.get("params"), flags) if plain_answer is not None else None
    if result is None:
        return None
    return f'{HEADS[command]}"id":{_text(message["id"])},"result":{_text(result)}}}\n'.encode()


def _parsed(line: bytes) -> object:
    try:
        from _json import make_scanner

        text = line.decode("ascii").rstrip(" \t\r")
        scan = make_scanner(_Strict)  # pyright: ignore[reportArgumentType] - the stub names the wrong class
        value, end = scan(text, 0)
    except (ImportError, ValueError, StopIteration, RecursionError, SystemError):
        return None  # SystemError: the scanner wants to raise an error of `json`, which is not there
    return value if end == len(text) else None


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is named twice")
    return members


def _constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


class _Strict:
    """What the scanner asks its owner for."""

    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_members)
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)
    memo: dict[str, str] = {}


def _text(value: object) -> str:
    """JSON of what a greeting is made of."""
    from _json import encode_basestring_ascii

    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(name)}:{_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return encode_basestring_ascii(value) if isinstance(value, str) else str(value)


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError as failure:
        print(f"hames: the client is gone: {failure}", file=sys.stderr)
