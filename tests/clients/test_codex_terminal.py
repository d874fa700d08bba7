"""Codex's own terminal, `codex --remote`, on the WebSocket of `hames serve`."""

import json
import os
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from client_support import HAMES, HERE, PIXEL, Place, place
from clients_table import settle

CONFIG = """\
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
"""
ESCAPE, CONTROL_T = "\x1b", "\x14"
TRUSTED = ("--sandbox", "workspace-write")
"""What it uses in a directory that its user trusts; in any other one it asks for a read-only sandbox."""
THOUGHTS = ("-c", "show_raw_agent_reasoning=true")
"""Its default is to show summaries of thoughts only, and this model has none. Ctrl+T shows the thoughts."""


@asynccontextmanager
async def listening(place: Place) -> AsyncGenerator[str]:
    """Our server, on a port of its own. Codex's terminal names no path."""
    words = [HAMES, "serve", "--port", "0", "--cwd", str(place.workspace), "--log-file", str(place.folder / "log")]
    process = await anyio.open_process(words, env={**os.environ, **place.environment})
    try:
        assert process.stdout
        with anyio.fail_after(60):
            banner = b""
            while (found := re.search(rb"http://(127\.0\.0\.1:\d+)\s", banner)) is None:
                banner += await process.stdout.receive()
        yield f"ws://{found[1].decode()}"
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def drive(place: Place, python: str, steps: list[dict[str, Any]], *command: str) -> dict[str, str]:
    """The screens that the steps keep."""
    home = place.folder / "codex-home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CONFIG)
    run = partial(
        subprocess.run,
        [python, str(HERE / "drive_terminal.py"), json.dumps(steps), *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=place.workspace,
        env={**os.environ, "CODEX_HOME": str(home), "TERM": "xterm-256color"},
    )
    done = await to_thread.run_sync(run)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    return json.loads(done.stdout)


def prompt(text: str, answer: str, *keys: str, keep: str = "", times: int = 1) -> list[dict[str, Any]]:
    """Types a prompt, then keys while the turn runs, and waits for the answer."""
    typed = [{"type": text}, {"type": "\r"}, *({"type": key} for key in keys)]
    return [*typed, {"see": answer, "times": times}, *([{"keep": keep}] if keep else [])]


def decide(text: str, key: str, answer: str) -> list[dict[str, Any]]:
    asked = [{"type": text}, {"type": "\r"}, {"see": "Would you like to run the following command?"}]
    return [*asked, {"type": key}, {"see": answer}]


WORK = [
    {"see": "Ask Codex to do anything"},
    *prompt("Greet me", "Hello from Hames.", keep="text"),
    *[{"type": CONTROL_T}, {"see": "A greeting is in order."}, {"keep": "reasoning"}, {"type": CONTROL_T}],
    *prompt("Make a file", "The file is there.", keep="command"),
    *prompt("Write a note", "The note is written.", keep="file"),
    *prompt("Read the note", "It says: a note.", keep="read"),
    *prompt("Plan", "That is the plan."),
    *[{"see": "Begin"}, {"keep": "plan"}],
    *prompt("/status", "Token usage:", keep="usage"),
    *prompt("/model", "Claude Opus 5.5", keep="models"),
    {"type": ESCAPE},
    *decide("Ask and be declined", "d", "It was declined."),
    *decide("Ask and be approved", "y", "It was approved."),
    *decide("Ask for the session", "a", "It was approved for the session."),
    *prompt("Ask for the session", "It was approved for the session.", times=2),
    *[{"type": "Take your time"}, {"type": "\r"}, {"see": "sleep 5"}],
    *prompt("Also sing", "I sang.", keep="steer"),
    *[{"type": "Wait"}, {"type": "\r"}, {"see": "sleep 600"}, {"type": ESCAPE}],
    *[{"see": "Conversation interrupted"}, {"keep": "interrupt"}],
]
ASIDE = [
    *[{"see": "A pixel."}, {"keep": "image"}],
    *prompt("/side Greet me", "Hello from Hames.", keep="side"),
]
RESUMED = [{"see": "I sang."}, *prompt("Still there?", "Still here.", keep="resume")]


async def test_the_terminal_works_with_its_defaults(node_modules: Path, client_python: str, tmp_path: Path) -> None:
    codex = str(node_modules / ".bin" / "codex")
    instructions = ("-c", 'developer_instructions="You are a lighthouse."')
    async with place(tmp_path) as here:
        async with listening(here) as url:
            told = await drive(here, client_python, WORK, codex, *TRUSTED, *THOUGHTS, "--remote", url)
            told |= await drive(here, client_python, RESUMED, codex, "resume", "--last", "--remote", url)
            picture = ("--image", str(here.picture))
            told |= await drive(here, client_python, ASIDE, codex, "Look", *instructions, "--remote", url, *picture)
        logs = [log.read_text() for log in here.workspace.glob(".harness/threads/*/events.jsonl")]
        works = {
            "text": "Hello from Hames." in told["text"],
            "reasoning": "A greeting is in order." in told["reasoning"],
            "command, default policy": "Ran touch made-by-agent" in told["command"] and here.has("made-by-agent"),
            "approve, decline, for the session": here.decided,
            "file change": "Added note.txt (+1 -0)" in told["file"] and here.has("note.txt"),
            "read and list": all(word in told["read"] for word in ("Called read", "Called list")),
            "plan": "Updated Plan" in told["plan"] and "End" in told["plan"],
            "usage": re.search(r"Token usage: +[1-9]", told["usage"]) is not None,
            "interrupt": "I waited." not in told["interrupt"],
            "resume": here.asked("Greet me", "Still there?"),
            "image": here.asked(PIXEL, "Look"),
            "steer": here.asked("Take your time", "Also sing"),
            "instructions": here.asked("You are a lighthouse.", "You are in a side conversation", "Greet me"),
            "model list": "Claude Sonnet 5.5 (current)" in told["models"],
            "ephemeral": not any("You are in a side conversation" in log for log in logs),
        }
    settle("@openai/codex", works, told)
