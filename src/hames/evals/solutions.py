"""The scripts of the agents that need no model: `oracle`, `perturbed` and `nothing`.

They are scripted models (`hames.providers.scripted`), so a solution goes through the loop, the tools and the sandbox
like a real model's calls. `perturbed` is the oracle with a mistake before each of its replies, as models make them.
"""

import re
import zlib
from typing import Literal

import msgspec

from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.evals.tasks import EvalTask

ScriptedAgent = Literal["oracle", "perturbed", "nothing"]
SCRIPTED_AGENTS: dict[str, ScriptedAgent] = {"oracle": "oracle", "perturbed": "perturbed", "nothing": "nothing"}

SHELL_TOOL = "shell"
_STEP = re.compile(r"^## (.*)\n", re.MULTILINE)

MISTAKES: tuple[list[Json], ...] = (
    [{"call": SHELL_TOOL, "arguments": '{"command": "echo un'}],
    [{"call": "no_such_tool", "with": {"path": "."}}],
    [{"call": SHELL_TOOL, "with": {}}],
    [{"call": SHELL_TOOL, "with": {"command": "exit 3"}}, {"call": SHELL_TOOL, "with": {"command": "true"}}],
    [{"call": "edit", "with": {"path": "no/such/file.txt", "old_string": "one", "new_string": "two"}}],
    [{"call": "read", "with": {"path": "../../outside.txt"}}],
    [{"call": SHELL_TOOL, "with": {"command": "seq 1 30000"}}],
    [{"call": SHELL_TOOL, "with": {"command": "no-such-program --version"}}],
)
"""Replies with calls that fail, are refused, or answer with too much."""


def script(task: EvalTask, agent: ScriptedAgent) -> bytes:
    """The script of one agent for one task, as `scripted/PATH` reads it. Raises `Misconfigured`."""
    if agent == "nothing":
        replies: list[Json] = ["I leave everything as it is."]
    else:
        replies = oracle_replies(task)
    if agent == "perturbed":
        replies = _with_mistakes(replies, zlib.crc32(task.name.encode()))
    return msgspec.json.encode(replies)


def oracle_replies(task: EvalTask) -> list[Json]:
    """One reply per model call; the last one ends the turn. Raises `Misconfigured`."""
    path = task.solution
    if path is None:
        raise Misconfigured(f"the task {task.name!r} has no solution: write solution.sh or oracle.json")
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return [*_shell_replies(text), "Done."]
    try:
        return msgspec.json.decode(text, type=list[Json])
    except ValueError as problem:
        raise Misconfigured(f"{str(path)!r} is not a list of replies: {problem}") from None


def _shell_replies(text: str) -> list[Json]:
    """`solution.sh` cut at its lines `## …`: what the agent says, and the command that it runs then.

    >>> _shell_replies("#!/bin/bash\\n## Look.\\nls\\n## Fix.\\ntouch x\\n")[1]
    [{'say': 'Fix.'}, {'call': 'shell', 'with': {'command': 'touch x'}}]
    """
    parts = _STEP.split(text)
    if len(parts) == 1:
        return [[{"call": SHELL_TOOL, "with": {"command": text.strip()}}]]
    steps = zip(parts[1::2], parts[2::2], strict=True)
    return [[{"say": said}, {"call": SHELL_TOOL, "with": {"command": command.strip()}}] for said, command in steps]


def _with_mistakes(replies: list[Json], first: int) -> list[Json]:
    mixed: list[Json] = []
    for number, reply in enumerate(replies):
        mixed += [MISTAKES[(first + number) % len(MISTAKES)], reply]
    return mixed
