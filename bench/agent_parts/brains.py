"""The brains: models that answer from a script, with the mistakes that models make, and what became of each.

A brain ends with the sentence of its row in `stage.happened`, and its judge says whether it recovered.
"""

import json
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Literal, NamedTuple

from agent_parts.peers import Json, Peer
from hames.testing.services.server import ServerReply, ServerTalk, Use

Reply = ServerTalk | ServerReply | list[Use] | str
Brain = Generator[Reply, Json, None]


class Stage:
    """One run: the workspace, the calls so far, and what came back."""

    def __init__(self, peer: Peer, workspace: Path) -> None:
        self.peer = peer
        self.workspace = workspace
        self.happened: list[str] = []
        self.body: Json = {}
        self._number = 0

    def file(self, name: str, content: str) -> Path:
        path = self.workspace / name
        path.write_text(content)
        return path

    def use(self, call: tuple[str, Json]) -> Use:
        self._number += 1
        name, arguments = call
        return Use(name=name, arguments=json.dumps(arguments), id=f"call_{self._number:03}")

    def result(self, use: Use) -> str:
        """What the model was told about a call; empty if nothing."""
        return result_of(self.body, use.id)


def result_of(body: Json, call_id: str) -> str:
    for message in body.get("messages", []):
        if message.get("role") == "tool" and message.get("tool_call_id") == call_id:
            return _text(message.get("content"))
        content = message.get("content")
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_result" and block.get("tool_use_id") == call_id:
                return _text(block.get("content"))
    for item in body.get("input", []) if isinstance(body.get("input"), list) else []:
        if str(item.get("type", "")).endswith("_call_output") and item.get("call_id") == call_id:
            return _text(item.get("output"))
    return ""


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "\n".join(_text(part) for part in content)
    if isinstance(content, dict):
        return _text(content.get("text") or content.get("content") or content.get("output") or "")
    return content or ""


def history_of(body: Json) -> tuple[str, list[str]]:
    """What comes before the conversation, and each of its parts, without the marks for caching."""
    before = json.dumps([body.get("system"), body.get("instructions"), body.get("tools")])
    parts = body.get("messages") or body.get("input") or []
    return _unmarked(before), [_unmarked(json.dumps(part)) for part in parts]


def _unmarked(text: str) -> str:
    def clean(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: clean(one) for name, one in value.items() if name != "cache_control"}
        return [clean(one) for one in value] if isinstance(value, list) else value

    return json.dumps(clean(json.loads(text)), sort_keys=True)


# -- the brains: each ends with the sentence of its row in `stage.happened`, and says whether it recovered


class Ending(NamedTuple):
    recovered: bool
    words: str


Script = Callable[[Stage], Brain]
Judge = Callable[[Stage, int], Ending]


class NearMiss(NamedTuple):
    """An edit as a model makes it that remembers a file wrongly, and as it should have been."""

    name: str
    text: str
    remembered: tuple[str, str]
    right: tuple[str, str]

    def outcome(self, now: str) -> Literal["unchanged", "meant", "otherwise"]:
        """Both ways of writing the new line are what was meant, as long as the file still makes sense."""
        old, new = self.right
        good = {self.text.replace(old, new), self.text.replace(old, self.remembered[1])}
        if now == self.text:
            return "unchanged"
        try:
            compile(now, self.name, "exec")
        except SyntaxError:
            return "otherwise"
        return "meant" if now in good else "otherwise"


NEAR_MISSES = (
    NearMiss(
        "spaces.py", "def a():\n    return  1\n", ("    return 1", "    return 2"), ("    return  1", "    return 2")
    ),
    NearMiss(
        "tabs.py", "def b():\n\tx = 0\n\treturn 1\n", ("    return 1", "    return 2"), ("\treturn 1", "\treturn 2")
    ),
    NearMiss("quotes.py", "name = 'Ann'\n", ('name = "Ann"', 'name = "Bob"'), ("name = 'Ann'", "name = 'Bob'")),
    NearMiss(
        "typo.py",
        "# recieve it\nvalue = 1\n",
        ("# receive it\nvalue = 1", "# receive it\nvalue = 2"),
        ("# recieve it\nvalue = 1", "# recieve it\nvalue = 2"),
    ),
    NearMiss(
        "trailing.py", "x = 1   \ny = 2\n", ("x = 1\ny = 2", "x = 1\ny = 3"), ("x = 1   \ny = 2", "x = 1   \ny = 3")
    ),
    NearMiss(
        "indent.py",
        "if a:\n        go()\n        on()\n",
        ("if a:\n    go()", "if a:\n    stop()"),
        ("if a:\n        go()", "if a:\n        stop()"),
    ),
)


def near_miss(stage: Stage) -> Brain:
    files = [stage.file(miss.name, miss.text) for miss in NEAR_MISSES]
    yield [stage.use(stage.peer.read(path)) for path in files]
    for path, miss in zip(files, NEAR_MISSES, strict=True):
        use = stage.use(stage.peer.edit(path, *miss.remembered))
        yield [use]
        if path.read_text() == miss.text and all(line in stage.result(use) for line in miss.right[0].split("\n")):
            yield [stage.use(stage.peer.edit(path, *miss.right))]  # repaired from the error alone
            if path.read_text() != miss.text:
                stage.happened.append("repaired")
    yield "Done."


def judge_near_miss(stage: Stage, code: int) -> Ending:
    found = [miss.outcome((stage.workspace / miss.name).read_text()) for miss in NEAR_MISSES]
    done, total, repaired = found.count("meant"), len(NEAR_MISSES), len(stage.happened)
    words = f"{done - repaired} applied as meant, {repaired} repaired from the error"
    return Ending(done == total, f"{words}, {found.count('otherwise')} files changed otherwise, of {total}")


TWICE = "def first():\n    x = 1\n    return x\n\n\ndef second():\n    x = 1\n    return x\n"


def ambiguous(stage: Stage) -> Brain:
    path = stage.file("twice.py", TWICE)
    yield [stage.use(stage.peer.read(path))]
    yield [stage.use(stage.peer.edit(path, "    x = 1", "    x = 2"))]
    if path.read_text() == TWICE:
        yield [stage.use(stage.peer.edit(path, "def second():\n    x = 1", "def second():\n    x = 2"))]
    yield "Done."


def judge_ambiguous(stage: Stage, code: int) -> Ending:
    now = (stage.workspace / "twice.py").read_text()
    if now == TWICE.replace("second():\n    x = 1", "second():\n    x = 2"):
        return Ending(True, "refused, then the right place changed")
    return Ending(False, "nothing changed" if now == TWICE else "the first place was changed silently")


def other_hand(stage: Stage) -> Brain:
    path = stage.file("shared.txt", "one\ntwo\nthree\n")
    yield [stage.use(stage.peer.read(path))]
    path.write_text("one\ntwo\nthree\nby somebody else\n")
    yield [stage.use(stage.peer.edit(path, "two", "TWO"))]
    if "TWO" not in path.read_text():
        stage.happened.append("edit refused")
    write = stage.use(stage.peer.write(path, "one\nTWO\nthree\nfour\n"))
    yield [write]
    if "by somebody else" in stage.result(write):
        stage.happened.append("its text shown")
    yield "Done."


def judge_other_hand(stage: Stage, code: int) -> Ending:
    now = (stage.workspace / "shared.txt").read_text()
    kept = "by somebody else" in now
    edit = "edit refused" if "edit refused" in stage.happened else "edit applied"
    return Ending(kept, f"{edit}; whole write {'refused' if kept else 'done, the other line is lost'}")


def arguments(stage: Stage) -> Brain:
    path = stage.file("marked.txt", "MARKER\n")
    peer = stage.peer
    calls = [
        stage.use(peer.read(path, note_to_self="extra")),
        stage.use(peer.read(path, **{peer.limit_name: None})),
        stage.use(peer.read(path, **{peer.limit_name: "500"})),
    ]
    for call, kind in zip(calls, ("extra argument", "null", '"500" for 500'), strict=True):
        yield [call]
        if "MARKER" in stage.result(call):
            stage.happened.append(kind)
    yield "Done."


def judge_arguments(stage: Stage, code: int) -> Ending:
    return Ending(
        len(stage.happened) == 3, f"{len(stage.happened)} of 3 accepted: {', '.join(stage.happened) or 'none'}"
    )


def twelve_calls(stage: Stage) -> Brain:
    commands = [f"touch done-{number}" if number != 3 else "exit 1" for number in range(1, 13)]
    uses = [stage.use(stage.peer.shell(command)) for command in commands]
    yield uses
    stage.happened.append(str(sum(bool(stage.result(use)) for use in uses)))
    yield "Done."


def judge_twelve_calls(stage: Stage, code: int) -> Ending:
    ran = len(list(stage.workspace.glob("done-*")))
    results = stage.happened[0] if stage.happened else "0"
    return Ending(ran == 11, f"{ran} of 11 other calls executed, {results} of 12 results told")


REPETITION = re.compile(
    r"[^.\n]*\b(repeat|identical|same (call|command|tool|error|arguments)|in a row|loop)[^.\n]*", re.IGNORECASE
)


def same_failure(stage: Stage) -> Brain:
    for _ in range(10):
        yield [stage.use(stage.peer.shell("ls no-such-file-anywhere"))]
        found = REPETITION.search(_latest(stage.body))
        if found and not stage.happened:
            stage.happened.append(f"told: {found[0].strip()[:100]}")
    if not stage.happened:
        stage.happened.append("nothing said")
    yield "Done."


def _latest(body: Json) -> str:
    """The text of everything since the last call."""
    parts = body.get("messages") or body.get("input") or []
    calls = ("function_call", "custom_tool_call", "reasoning")
    said = [n for n, part in enumerate(parts) if part.get("role") == "assistant" or part.get("type") in calls]
    return "\n".join(_text(part) for part in parts[max(said, default=-1) + 1 :])


def judge_same_failure(stage: Stage, code: int) -> Ending:
    said = stage.happened[0] if stage.happened else "the run ended before the tenth call"
    return Ending(said.startswith("told"), said)


def cut_call(stage: Stage) -> Brain:
    name, given = stage.peer.shell("touch whole")
    text = json.dumps(given)
    yield ServerTalk(parts=(Use(name=name, arguments=text[: len(text) - 6], id="call_cut"),), stop="max_tokens")
    stage.happened.append("asked again")
    yield [stage.use(stage.peer.shell("touch whole"))]
    yield "Done."


def empty_reply(stage: Stage) -> Brain:
    yield ServerTalk(parts=(), stop="end")
    stage.happened.append("asked again")
    yield [stage.use(stage.peer.shell("touch whole"))]
    yield "Done."


def judge_whole(stage: Stage, code: int) -> Ending:
    made = (stage.workspace / "whole").exists()
    words = "asked again, then done" if made else f"nothing done, exit code {code}"
    return Ending(made, words if made or "asked again" not in stage.happened else f"asked again, {words}")


WINDOW_BYTES = 110_000


def window(stage: Stage) -> Brain:
    """The server refuses requests that are more than `WINDOW_BYTES` longer than the first one."""
    files = [
        stage.file(f"long-{place}.txt", "".join(f"{place}{number:05} {'word ' * 12}\n" for number in range(300)))
        for place in range(10)
    ]
    for place in range(0, 10, 2):  # two at a time: a summary of everything is too long as well, then
        yield [stage.use(stage.peer.read(path)) for path in files[place : place + 2]]
    yield [stage.use(stage.peer.shell("touch whole"))]
    yield "Done."


def judge_window(stage: Stage, code: int) -> Ending:
    made = (stage.workspace / "whole").exists()
    refused = stage.happened.count("refused")
    how = f"{refused} requests refused as too long"
    return Ending(made, f"{how}, {'went on' if made else f'the run ended, exit code {code}'}")


EDITS = 30


def long_edits(stage: Stage) -> Brain:
    path = stage.file("numbers.py", "".join(f"value_{number} = 0  # {'x' * 40}\n" for number in range(120)))
    yield [stage.use(stage.peer.read(path))]
    for number in range(EDITS):
        line = f"value_{number} = %d  # {'x' * 40}"
        yield [stage.use(stage.peer.edit(path, line % 0, line % (number + 1)))]
    yield "Done."


def judge_long_edits(stage: Stage, code: int) -> Ending:
    lines = (stage.workspace / "numbers.py").read_text().splitlines()
    done = sum(lines[number].startswith(f"value_{number} = {number + 1} ") for number in range(EDITS))
    return Ending(done == EDITS, f"{done} of {EDITS} edits applied")


BRAINS: dict[str, tuple[Script, Judge]] = {
    "near-miss edits": (near_miss, judge_near_miss),
    "ambiguous place": (ambiguous, judge_ambiguous),
    "another hand writes": (other_hand, judge_other_hand),
    "odd arguments": (arguments, judge_arguments),
    "12 calls, third fails": (twelve_calls, judge_twelve_calls),
    "same failure 10 times": (same_failure, judge_same_failure),
    "reply cut inside a call": (cut_call, judge_whole),
    "empty reply": (empty_reply, judge_whole),
    "window exceeded": (window, judge_window),
    f"{EDITS} edits in a row": (long_edits, judge_long_edits),
}
