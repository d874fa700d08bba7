"""What every client is run against: `hames` where it expects `codex`, and a scripted model on loopback."""

import base64
import json
import os
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import (
    Pause,
    ProviderServer,
    SeenRequest,
    ServerReply,
    ServerTalk,
    Thoughts,
    Use,
    Words,
    talk,
)
from matrix_support import MCP_SERVER

HERE = Path(__file__).parent
HAMES = str(Path(sys.executable).parent / "hames")
MODEL = "anthropic/claude-sonnet-5-5"
MCP = json.dumps([sys.executable, str(MCP_SERVER)])
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
SECONDS = 600


def use(*calls: tuple[str, dict[str, object]]) -> ServerTalk:
    parts = (Use(name=name, arguments=json.dumps(arguments)) for name, arguments in calls)
    return ServerTalk(parts=tuple(parts), stop="tools")


def shell(command: str, **arguments: object) -> ServerTalk:
    return use(("shell", {"command": command, **arguments}))


def outside(command: str) -> ServerTalk:
    """Asks to leave the sandbox, which is what needs an approval with Codex's default policy."""
    return shell(command, unsandboxed=True, justification="The sandbox stands in the way.")


STEPS = [{"step": "Begin", "status": "completed"}, {"step": "End", "status": "completed"}]
"""All done: the model is reminded of steps that are not, and answers once more."""
TOOL_REPLIES: dict[str, tuple[ServerTalk, ServerTalk]] = {
    "Make a file": (shell("touch made-by-agent"), talk("The file is there.")),
    "Ask and be declined": (outside("touch declined"), talk("It was declined.")),
    "Ask and be approved": (outside("touch approved"), talk("It was approved.")),
    "Ask for the session": (outside("echo granted-$((6 * 7))"), talk("It was approved for the session.")),
    "Write a note": (use(("write", {"path": "note.txt", "content": "a note\n"})), talk("The note is written.")),
    "Read the note": (use(("read", {"path": "note.txt"}), ("list", {"path": "."})), talk("It says: a note.")),
    "Take your time": (shell("sleep 5"), talk("I sang.")),
    "Wait": (shell("sleep 600"), talk("I waited.")),
    "Add them": (use(("mcp__test__add", {"a": 40, "b": 2})), talk("It is forty-two.")),
    "Plan": (use(("plan", {"entries": STEPS})), talk("That is the plan.")),
    "Weather": (use(("weather", {"city": "Oslo"})), talk("It is sunny.")),
    "Run it at home": (use(("exec_command", {"cmd": "echo home-$((6 * 7))"})), talk("It ran at home.")),
    "Read at home": (use(("read", {"filePath": "home.txt"})), talk("It was read at home.")),
}
"""By prompt: what the model does first, and what it says when the tool has answered."""
TEXT_REPLIES: dict[str, ServerTalk] = {
    "Greet me": ServerTalk(parts=(Thoughts(text="A greeting is in order."), Words(text="Hello from Hames."))),
    "Still there?": talk("Still here."),
    "Look": talk("A pixel."),
    "Count": talk('{"n": 1}'),
}
TITLE = talk('{"title": "A title from the model"}')


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def reply(request: SeenRequest) -> ServerReply | ServerTalk:
    """A new prompt is answered after a moment, as by any model: one of the clients listens for what a turn says only
    after it has read the answer to `turn/start`, and misses what comes together with that answer."""
    messages: list[dict[str, Any]] = request.body["messages"]
    said = _answer(messages)
    is_first = "tool_result" not in json.dumps(messages[-1])
    return ServerReply(parts=(Pause(seconds=0.5), *ANTHROPIC.events(said))) if is_first else said


def _answer(messages: list[dict[str, Any]]) -> ServerTalk:
    """It goes by the last prompt that the model knows, and by whether a tool has answered since."""
    for number in range(len(messages) - 1, -1, -1):
        text = _text(messages[number]) if messages[number]["role"] == "user" else ""
        if "generate a very short title" in text:
            return TITLE
        for prompt, (first, last) in TOOL_REPLIES.items():
            if prompt in text:
                return last if any(m["role"] == "assistant" for m in messages[number + 1 :]) else first
        for prompt, answer in TEXT_REPLIES.items():
            if prompt in text:
                return answer
    return talk("I do not know that prompt.")


class Place(NamedTuple):
    """`codex` is a program of ours where the clients expect Codex's."""

    codex: str
    folder: Path
    workspace: Path
    picture: Path
    model: ProviderServer
    environment: dict[str, str]

    def asked(self, *texts: str) -> bool:
        """Whether the model got a request that had all of these in it."""
        return any(all(text in seen.raw.decode() for text in texts) for seen in self.model.seen)

    def has(self, name: str) -> bool:
        return (self.workspace / name).exists()

    def deleted(self, thread: dict[str, Any]) -> bool:
        """Whether an ephemeral thread was answered and is gone, now that its client is."""
        names: list[str] = thread.get("saved", [])
        gone = not any(self.has(f".harness/threads/{name}") for name in names)
        return thread.get("text") == "Hello from Hames." and gone

    @property
    def decided(self) -> bool:
        """Whether each of the three decisions had its effect; the one for the session, twice in one thread."""
        granted = max((seen.raw.decode().count("granted-42") for seen in self.model.seen), default=0)
        return self.has("approved") and not self.has("declined") and granted >= 2


@asynccontextmanager
async def place(folder: Path) -> AsyncGenerator[Place]:
    workspace, picture, codex = folder / "workspace", folder / "pixel.png", folder / "codex"
    workspace.mkdir()
    picture.write_bytes(base64.b64decode(PIXEL))
    async with ProviderServer(ANTHROPIC, then=reply, strict=False) as model:
        environment = {
            "HAMES_STATE": str(folder / "state"),
            "HAMES_CONFIG": str(folder / "config.toml"),
            "HAMES_MODEL": MODEL,
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "test",
        }
        words = [f"{name}={value}" for name, value in environment.items()]
        codex.write_text(f'#!/bin/sh\nexec env {shlex.join([*words, HAMES])} "$@"\n')
        codex.chmod(0o755)
        yield Place(str(codex), folder, workspace, picture, model, environment)


async def answers(*words: str, **environment: str) -> dict[str, Any]:
    """Runs a driver and returns the JSON that it prints."""
    with anyio.fail_after(SECONDS):
        done = await anyio.run_process(words, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
