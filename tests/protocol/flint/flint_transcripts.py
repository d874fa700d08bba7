"""Transcripts: conversations that a person can check against the specification, and a test replays.

    # What it shows.
    # spec: flint/turn-start
    model [{"say": "Hello"}]                      the next reply of the model; `agent [...]`: several calls in one
    file notes.txt one line of text               a file in the workspace, before anything is said
    > {"id": 1, "method": "thread/start"}         the client says it
    < {"id": 1, "result": {"thread": {"id": "$t"}}}   the agent says it, sooner or later: others may come before
    ! {"method": "turn/started"}                  nothing the agent has said so far looks like this
    later                                         another client, whose handshake is done, goes on from here
    restart                                       the agent ends and starts anew; a new handshake is done

Objects match when every member named matches. `"..."` matches anything, `"$name"` is remembered and compared,
`{"absent": true}` matches a member that is not there, and a list whose last element is `"..."` may go on. `"<now s>"`
and `"<now ms>"` are times since the transcript began, `"<100-60000>"` is a number in that range.
"""

import json
import re
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio

from flint_support import Message, Talk, real_engine, talking
from hames.core.engine import Engine
from hames.testing.fakes.model import ScriptedModel, Step, call, fail, hang, notice, say, search, think, usage

ABSENT = object()
BEGAN = "<began>"
"""Bound to the time at which the transcript began, in nanoseconds."""
UNITS = {"<now s>": 1_000_000_000, "<now ms>": 1_000_000}
RANGE = re.compile(r"<(\d+)-(\d+)>")


async def replay(transcript: Path, folder: Path, *, created_elsewhere: bool = False, database: str = "") -> None:
    (folder / "ws").mkdir()
    replies: list[list[Step]] = []
    lines: list[tuple[int, str, str]] = []
    for number, line in enumerate(transcript.read_text().splitlines(), 1):
        word, _, rest = line.partition(" ")
        match word:
            case "" | "#":
                continue
            case "model":
                replies.append(_steps(json.loads(rest)))
            case "file":
                name, _, text = rest.partition(" ")
                (folder / "ws" / name).write_text(text + "\n")
            case ">" | "<" | "!" | "later" | "restart":
                lines.append((number, word, rest))
            case _:
                raise AssertionError(f"{transcript.name}:{number}: what is {word!r}?")
    model = ScriptedModel(*replies)
    names: dict[str, Any] = {"$ws": str(folder / "ws"), BEGAN: time.time_ns()}
    while lines:  # one round per agent
        made = real_engine(model, folder, created_elsewhere=created_elsewhere, database=database)
        async with made as engine, AsyncExitStack() as stack:
            await _talk(transcript, lines, engine, stack, names)
    if "hang" not in transcript.read_text():
        model.assert_finished()


async def _talk(
    transcript: Path, lines: list[tuple[int, str, str]], engine: Engine, stack: AsyncExitStack, names: dict[str, Any]
) -> None:
    first = len(names) == 2
    talk = await stack.enter_async_context(talking(engine, None if first else "test"))
    while lines:
        number, word, rest = lines.pop(0)
        where = f"{transcript.name}:{number}"
        match word:
            case ">":
                await talk.say(_filled(rest, names))
            case "<":
                await _heard(talk, json.loads(rest), names, where)
            case "!":
                wanted = json.loads(rest)
                assert not [m for m in talk.heard if _matches(wanted, m, dict(names))], f"{where}: it was said"
            case "later":
                talk = await stack.enter_async_context(talking(engine, "test"))
            case _:
                return


async def _heard(talk: Talk, wanted: Message, names: dict[str, Any], where: str) -> None:
    passed: list[Message] = []
    try:
        while True:
            message = await talk.hear()
            if _matches(wanted, message, names):
                return
            passed.append(message)
    except (TimeoutError, anyio.EndOfStream):
        said = "\n".join(json.dumps(message) for message in passed)
        raise AssertionError(f"{where}: never said: {json.dumps(wanted)}\nbut:\n{said}") from None


def _matches(wanted: Any, value: Any, names: dict[str, Any]) -> bool:
    if wanted == {"absent": True}:
        return value is ABSENT
    if value is ABSENT:
        return False
    if wanted == "...":
        return True
    if isinstance(wanted, str) and (unit := UNITS.get(wanted)):
        return type(value) is int and names[BEGAN] // unit <= value <= time.time_ns() // unit
    if isinstance(wanted, str) and (limits := RANGE.fullmatch(wanted)):
        return type(value) is int and int(limits[1]) <= value <= int(limits[2])
    if isinstance(wanted, str) and wanted.startswith("$"):
        if wanted not in names and value not in ("", None):  # an empty name would match every other empty one
            names[wanted] = value
        return wanted in names and names[wanted] == value
    if isinstance(wanted, str) and wanted.startswith("~"):
        return isinstance(value, str) and _filled(wanted[1:], names) in value
    if isinstance(wanted, dict):
        found = dict(names)
        if not isinstance(value, dict) or not all(
            _matches(inner, value.get(name, ABSENT), found) for name, inner in wanted.items()
        ):
            return False
        names.update(found)
        return True
    if isinstance(wanted, list):
        return isinstance(value, list) and _all_match(wanted, value, names)
    return type(wanted) is type(value) and wanted == value


def _all_match(wanted: list[Any], value: list[Any], names: dict[str, Any]) -> bool:
    if wanted and wanted[-1] == "...":
        wanted = wanted[:-1]
        value = value[: len(wanted)]
    return len(wanted) == len(value) and all(map(_matches, wanted, value, [names] * len(wanted)))


def _filled(text: str, names: dict[str, Any]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(f'"{name}"', json.dumps(names[name]))
        if isinstance(names[name], str):
            text = text.replace(name, names[name])
    return text


def _steps(reply: list[dict[str, Any]]) -> list[Step]:
    return [_step(step) for step in reply]


def _step(step: dict[str, Any]) -> Step:
    match step:
        case {"say": text, **also}:
            return say(text, **also)
        case {"think": text}:
            return think(text)
        case {"call": name, **arguments}:
            return call(name, **arguments)
        case {"search": query}:
            return search(query)
        case {"usage": tokens}:
            return usage(**tokens)
        case {"notice": name, "message": message}:
            return notice(name, message)
        case {"fail": message, **also}:
            return fail(message, **also)
        case {"hang": _}:
            return hang()
        case _:
            raise AssertionError(f"no such step: {step}")
