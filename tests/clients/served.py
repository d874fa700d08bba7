"""`hames serve` as a process on the loopback interface, and the programs that ask it."""

import json
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from client_support import HAMES, MODEL, Place

DOCS = Path(__file__).resolve().parents[2] / "docs"
SECONDS = 600


@asynccontextmanager
async def served(here: Place, *flags: str) -> AsyncGenerator[str]:
    """The address of a server."""
    command = [HAMES, "serve", "--port", "0", "--cwd", str(here.workspace), "--model", MODEL, *flags]
    environment = {**os.environ, **here.environment}
    process = await anyio.open_process(command, env=environment, cwd=here.workspace, stderr=None)
    try:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"Ctrl+C" not in said:
                said += await process.stdout.receive()
        yield said.split()[3].decode()
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()


class Finished(NamedTuple):
    """A program that has ended. `text` is all that it printed."""

    code: int
    out: str
    text: str


async def run_client(here: Place, *command: str, **environment: str) -> Finished:
    """Runs a program of somebody else in the workspace, with a home of its own."""
    home = here.folder / "home"
    home.mkdir(exist_ok=True)
    given = {**os.environ, **here.environment, "HOME": str(home), **environment}
    with anyio.fail_after(SECONDS):
        done = await anyio.run_process(command, check=False, env=given, cwd=here.workspace)
    return Finished(done.returncode, done.stdout.decode(), f"{done.stdout.decode()}\n{done.stderr.decode()[-8000:]}")


async def driven(here: Place, *command: str, **environment: str) -> dict[str, Any]:
    """Runs a driver and returns the JSON that it prints as its last line."""
    done = await run_client(here, *command, **environment)
    lines = done.out.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (ValueError, IndexError):
        raise AssertionError(f"{command[0]} ended with {done.code}\n{done.text}") from None


def documented(page: str, containing: str, places: Mapping[str, str]) -> str:
    """The block of code of a documentation page that has these words in it, with the places of this test instead of
    those of the page: what people copy is what is tested."""
    blocks = re.findall(r"```[a-z]*\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    found = [block for block in blocks if containing in block]
    assert len(found) == 1, f"{len(found)} blocks of {page} have {containing!r} in them"
    text = found[0]
    for shown, here in places.items():
        assert shown in text, f"{shown!r} is not in the block of {page}"
        text = text.replace(shown, here)
    return text
