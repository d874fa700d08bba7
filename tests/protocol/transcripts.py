"""Transcripts: conversations on the wire that a person can check against the specification, and we replay.

A file holds scenes. A scene begins with `## what it shows`; `# spec: id id` ties it to sentences of a specification,
any other line with `#` is a remark.

    > TEXT     a line the client sends; "$name" stands for what was bound to it
    >b TEXT    the same, with Python's escapes: \\xff is a byte
    < JSON     the next message of the server: every member named here matches, others are free
    <= JSON    the same, and there are no others
    <+ JSON    one or more messages in a row that match
    <...       any messages, until the next line matches
    <.         nothing more: the next thing the server says is the answer to a new request
    = JSON     a reply of the model, as an object of what it does in order: think, say, begin (a text that is never
               ended), call (a tool's name and arguments), calls (several), hang, fail
    ! WORDS    restart · eof · file NAME · no file NAME · policy NAME · asked N (the model, so far)

In JSON the server sends, "..." is any string, "<number>" and "<any>" are what they say, "<absent>" is no such member,
"<now>" is a time in milliseconds since the scene began ("<now $name>" also binds it), "<0-60000>" is a number in that
range, "$name" is bound the first time and compared from then on ("$dir" is the workspace), and {"<has>": [a, b]} is an
array with these among others.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from stage import Stage

from hames.testing.fakes.model import ScriptedModel, Step, call, fail, hang, say, think

NUMBERS = (int, float)
PROBE = "is anybody there?"
BEGAN = "<began>"
"""Bound to the time at which the scene began."""
RANGE = re.compile(r"<(\d+)-(\d+)>")


@dataclass
class Scene:
    title: str
    file: str
    lines: list[tuple[int, str, str]] = field(default_factory=list)
    """Number, sign and the rest of each line."""

    def __str__(self) -> str:
        return re.sub(r"\W+", "-", self.title).strip("-")


SIGNS = ("<...", "<.", "<+", "<=", "<", ">b", ">", "=", "!")


def scenes(directory: Path) -> list[Scene]:
    found: list[Scene] = []
    for path in sorted(directory.glob("*.txt")):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if line.startswith("## "):
                found.append(Scene(line[3:], path.name))
            elif line and not line.startswith("#"):
                sign = next((sign for sign in SIGNS if line.startswith(sign)), None)
                assert sign is not None, f"{path.name}:{number}: no such line: {line}"
                found[-1].lines.append((number, sign, line.removeprefix(sign).strip()))
    return found


async def play(
    scene: Scene,
    directory: Path,
    probe: dict[str, Any],
    check: Callable[[Any], None],
    *,
    created_elsewhere: bool = False,
    database: str = "",
) -> None:
    """`probe` is a harmless request without an id; `check` holds for every message of the server."""
    player = Player(scene, directory, probe, check)
    player.created_elsewhere, player.database = created_elsewhere, database
    try:
        await player.play()
    except (AssertionError, TimeoutError) as failure:
        heard = "\n".join(json.dumps(message)[:300] for message in player.heard)
        why = str(failure) or "nothing more came"
        raise AssertionError(f"{scene.file}:{player.number}: {why}\nheard so far:\n{heard}") from failure


class Player:
    def __init__(self, scene: Scene, directory: Path, probe: dict[str, Any], check: Callable[[Any], None]) -> None:
        self.scene = scene
        self.number = 0
        self.heard: list[Any] = []
        self.created_elsewhere = False
        self.database = ""
        self._directory = directory
        self._probe = probe
        self._check = check
        self._bound: dict[str, Any] = {"dir": str((directory / "work").resolve()), BEGAN: now_ms()}
        self._ahead: list[Any] = []
        self._model = ScriptedModel()
        self._probes = 0
        self._skipping = False
        self._over = False

    async def play(self) -> None:
        policy = next((words.split()[1] for _, sign, words in self.scene.lines if words.startswith("policy ")), None)
        stage = self._stage = Stage(
            self._directory,
            self._model,
            policy=policy or "unlessTrusted",
            created_elsewhere=self.created_elsewhere,
            database=self.database,
        )
        async with stage:
            for number, sign, rest in self.scene.lines:
                self.number = number
                with anyio.fail_after(60):
                    await self._line(sign, rest)
            if not self._over:
                with anyio.fail_after(60):
                    await self._quiet(skipping=True)

    async def _line(self, sign: str, rest: str) -> None:
        match sign:
            case "=":
                self._model.add(steps(json.loads(rest)))
            case ">":
                await self._stage.send(self._filled(rest).encode() + b"\n")
            case ">b":
                await self._stage.send(rest.encode("latin-1").decode("unicode_escape").encode("latin-1") + b"\n")
            case "<...":
                self._skipping = True
            case "<.":
                await self._quiet(skipping=False)
            case "<+":
                wanted = json.loads(rest)
                await self._next(wanted, exact=False)
                while self._matches(wanted, message := await self._peek(), exact=False):
                    self._take(message)
            case "<" | "<=":
                await self._next(json.loads(rest), exact=sign == "<=")
            case _:
                await self._direct(rest)

    async def _direct(self, words: str) -> None:
        match words.split():
            case ["restart"]:
                await self._stage.restart()
            case ["eof"]:
                self._over = True
                await self._stage.stop()
            case ["file", name]:
                assert (self._directory / "work" / self._named(name)).exists()
            case ["no", "file", name]:
                assert not (self._directory / "work" / self._named(name)).exists()
            case ["asked", times]:
                await self._model.asked(int(times))
            case ["policy", _]:
                pass
            case _:
                raise AssertionError(f"no such direction: {words}")

    async def _next(self, wanted: Any, *, exact: bool) -> None:
        while True:
            message = await self._peek()
            self._take(message)
            if self._matches(wanted, message, exact=exact):
                self._skipping = False
                return
            assert self._skipping, f"expected {json.dumps(wanted)}\n  but heard {json.dumps(message)}"

    async def _peek(self) -> Any:
        if not self._ahead:
            message = strict(await self._stage.receive())
            for one in message if isinstance(message, list) else [message]:
                self._check(one)
            self._ahead.append(message)
        return self._ahead[0]

    def _take(self, message: Any) -> None:
        self._ahead.remove(message)
        self.heard.append(message)

    async def _quiet(self, *, skipping: bool) -> None:
        """Ask something new: whatever was still to be said comes before the answer."""
        self._probes += 1
        asked = {**self._probe, "id": f"{PROBE} {self._probes}"}
        await self._stage.send(json.dumps(asked).encode() + b"\n")
        while True:
            message = await self._peek()
            self._take(message)
            if isinstance(message, dict) and message.get("id") == asked["id"]:
                return
            assert skipping, f"expected silence\n  but heard {json.dumps(message)}"

    def _filled(self, text: str) -> str:
        return re.sub(r'"\$(\w+)"', lambda name: json.dumps(self._bound[name[1]]), text)

    def _named(self, path: str) -> str:
        return re.sub(r"\$(\w+)", lambda name: self._bound[name[1]], path)

    def _matches(self, wanted: Any, got: Any, *, exact: bool) -> bool:
        bound = dict(self._bound)
        if matches(wanted, got, bound, exact=exact):
            self._bound = bound
            return True
        return False


def matches(wanted: Any, got: Any, bound: dict[str, Any], *, exact: bool = False) -> bool:
    match wanted:
        case "<any>":
            return True
        case "...":
            return isinstance(got, str)
        case "<number>":
            return isinstance(got, NUMBERS) and not isinstance(got, bool)
        case str() if wanted.startswith("<now"):
            name = wanted.removeprefix("<now").removesuffix(">").strip()
            in_time = type(got) is int and bound[BEGAN] <= got <= now_ms()
            return in_time and (not name or matches(name, got, bound))
        case str() if limits := RANGE.fullmatch(wanted):
            return type(got) is int and int(limits[1]) <= got <= int(limits[2])
        case str() if wanted.startswith("$"):
            if got in ("", None):  # an empty name would match every other empty one
                return False
            return same(bound.setdefault(wanted[1:], got), got)
        case {"<has>": parts}:
            return isinstance(got, list) and all(any(matches(p, g, bound, exact=exact) for g in got) for p in parts)
        case dict():
            if not isinstance(got, dict):
                return False
            there = {name: value for name, value in wanted.items() if value != "<absent>"}
            if any(name in got for name in wanted.keys() - there.keys()) or (exact and got.keys() != there.keys()):
                return False
            return all(name in got and matches(value, got[name], bound, exact=exact) for name, value in there.items())
        case list():
            if not isinstance(got, list) or len(got) != len(wanted):
                return False
            return all(matches(one, other, bound, exact=exact) for one, other in zip(wanted, got, strict=True))
        case _:
            return same(wanted, got)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def same(one: Any, other: Any) -> bool:
    """JSON's equality: true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def strict(line: bytes) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(line.decode(), parse_constant=refuse)


def steps(reply: dict[str, Any]) -> list[Step]:
    return list(_steps(reply))


def _steps(reply: dict[str, Any]) -> Iterator[Step]:
    for word, what in reply.items():
        match word:
            case "think":
                yield think(what)
            case "say":
                yield say(what)
            case "begin":
                yield say(what, cut=True)
            case "call":
                yield call(what[0], **what[1])
            case "calls":
                yield from (call(name, **arguments) for name, arguments in what)
            case "hang":
                yield hang()
            case "fail":
                yield fail(what)
            case _:
                raise AssertionError(f"the model cannot {word}")
