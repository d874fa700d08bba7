"""The same fixed brains through Hames and through other agents: what is told back, what is sent, who recovers.

    python bench/agent.py [--install] [--peers hames,codex] [--brains near-miss,...] [--out FILE]

A brain is a model server on a loopback port that answers from a script and keeps every request. It plays the mistakes
that models make and reads the answers as a model would: if an error shows the right text, it repairs its call from that
alone. Nothing here is a score of a model: it is what a harness does with the same replies.

Other agents are looked for in `.tools/peers` (and `.tools/vibe`); `--install` puts them there. One that is missing or
does not run is named in the table, with the reason.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from agent_parts.brains import BRAINS, WINDOW_BYTES, Brain, Stage, history_of
from agent_parts.peers import PEERS, TOOLS, Json, Peer
from hames.testing.services.server import ProviderServer, SeenRequest, ServerReply, ServerTalk, talk

NPM = ("@openai/codex@0.166.0", "@anthropic-ai/claude-code@2.1.197", "opencode-ai@1.18.33")
VIBE = "mistral-vibe"
RUN_SECONDS = 150


class Row(NamedTuple):
    brain: str
    peer: str
    recovered: str
    words: str
    requests: int = 0
    sent_kb: float = 0.0
    prefix: str = "-"
    questions: int = 0
    seconds: float = 0.0


class Server:
    """Plays a brain to the main conversation, and says something short to every other request (titles, probes)."""

    def __init__(self, stage: Stage, brain: Brain, *, limited: bool) -> None:
        self._stage = stage
        self._brain = brain
        self._limited = limited
        self._begun = False
        self.first = 0
        self.main: list[SeenRequest] = []

    def answer(self, seen: SeenRequest) -> ServerTalk | ServerReply:
        reply = self._reply(seen)
        if isinstance(reply, ServerTalk):
            reply = ServerReply(parts=tuple(self._stage.peer.dialect.events(reply)))
        # Replies with the same id would be taken for parts of one message.
        named = tuple(
            part.replace(b'"msg_01"', b'"msg_%d"' % len(self.main)) if isinstance(part, bytes) else part
            for part in reply.parts
        )
        return replace(reply, parts=named)

    def _reply(self, seen: SeenRequest) -> ServerTalk | ServerReply:
        body = seen.body
        if not isinstance(body, dict):
            return talk("ok")
        self.first = self.first or (len(seen.raw) if body.get("tools") else 0)
        if self._limited and self.first and len(seen.raw) > self.first + WINDOW_BYTES:
            self._stage.happened.append("refused")
            return self._stage.peer.dialect.refusal(400, info="ContextWindowExceeded")
        if not body.get("tools") or (self._limited and _asks_for_summary(body)):
            return talk("So far a long file was read several times, as planned. Go on with the plan.")
        self.main.append(seen)
        self._stage.body = body
        self._stage.peer.offered = offered_tools(body)
        try:
            reply = self._brain.send(body) if self._begun else next(self._brain)
        except StopIteration:
            return talk("Done.")
        self._begun = True
        if isinstance(reply, str):
            return talk(reply)
        return self._stage.peer.reply(reply) if isinstance(reply, list) else reply


def offered_tools(body: Json) -> dict[str, frozenset[str]]:
    tools = [tool.get("function", tool) for tool in body["tools"]]
    schemas = {tool.get("name", ""): tool.get("input_schema") or tool.get("parameters") or {} for tool in tools}
    return {name: frozenset(schema.get("properties", {})) for name, schema in schemas.items()}


def _asks_for_summary(body: Json) -> bool:
    last = (body.get("messages") or body.get("input") or [{}])[-1]
    content = last.get("content")
    texts = (
        [content]
        if isinstance(content, str)
        else [part.get("text", "") for part in content or [] if isinstance(part, dict)]
    )
    return last.get("role") == "user" and any("summar" in (text or "").lower() for text in texts[-1:])


def _prefix(main: list[SeenRequest]) -> str:
    """How many requests began with the whole one before."""
    kept = 0
    for before, after in pairwise(main):
        (head_a, parts_a), (head_b, parts_b) = history_of(before.body), history_of(after.body)
        kept += head_a == head_b and parts_b[: len(parts_a)] == parts_a
    return f"{kept}/{len(main) - 1}" if len(main) > 1 else "-"


async def play(kind: type[Peer], name: str) -> Row:
    script, judge = BRAINS[name]
    peer = kind()
    # Codex runs no command when its home is in a temporary directory.
    home = TOOLS / f"peers/home-{uuid.uuid4().hex[:8]}"
    folder = Path(tempfile.mkdtemp(prefix="hames-bench-"))
    workspace = folder / "work"
    workspace.mkdir()
    home.mkdir(parents=True)
    try:
        stage = Stage(peer, workspace)
        server = Server(stage, script(stage), limited=name == "window exceeded")
        started = time.monotonic()
        async with ProviderServer(peer.dialect, then=server.answer, strict=False) as service:
            words, added = peer.command(service.url, home)
            environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", **added}
            code, output = await _run(words, environment, workspace)
            seen = [one for one in service.seen if one.path.partition("?")[0] == peer.dialect.path]
        seconds = time.monotonic() - started
        if not server.main:
            return Row(name, peer.name, "not run", f"it never asked its model: {_last(output)}")
        ending = judge(stage, code)
        return Row(
            brain=name,
            peer=peer.name,
            recovered="yes" if ending.recovered else "no",
            words=ending.words,
            requests=len(server.main),
            sent_kb=sum(len(one.raw) for one in seen) / 1000,
            prefix=_prefix(server.main),
            questions=peer.questions(output),
            seconds=seconds,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


async def _run(words: list[str], environment: dict[str, str], cwd: Path) -> tuple[int, str]:
    process = await anyio.open_process(
        words, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environment, cwd=cwd, start_new_session=True
    )
    kept = bytearray()
    try:
        with anyio.move_on_after(RUN_SECONDS):
            assert process.stdout is not None
            async for chunk in process.stdout:
                kept += chunk
            await process.wait()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            with anyio.CancelScope(shield=True):
                await process.wait()
    code = process.returncode if process.returncode is not None else -9
    return code, kept.decode(errors="replace")


def _last(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "it said nothing"


def table(rows: list[Row]) -> Iterator[str]:
    head = ("brain", "agent", "recovered", "what happened", "requests", "kB sent", "prefix kept", "questions", "s")
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        figures = (
            ("-",) * 5
            if row.recovered == "not run"
            else (str(row.requests), f"{row.sent_kb:,.0f}", row.prefix, str(row.questions), f"{row.seconds:.1f}")
        )
        yield "| " + " | ".join((row.brain, row.peer, row.recovered, row.words.replace("|", "/"), *figures)) + " |"


def install() -> None:
    folder = TOOLS / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM], check=True)
    uv = str(Path(sys.executable).parent / "uv")
    named = [shutil.which(name) or "" for name in ("python3.14", "python3.13", "python3.12")]
    known = sorted(map(str, Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python")), reverse=True)
    python = next((one for one in [*named, *known] if one and not subprocess.call([one, "-c", ""])), "3.12")
    subprocess.run([uv, "venv", "-q", "--clear", "--python", python, str(TOOLS / "vibe")], check=False)
    subprocess.run([uv, "pip", "install", "-q", "--python", str(TOOLS / "vibe/bin/python"), VIBE], check=False)


async def measure(args: argparse.Namespace) -> list[Row]:
    wanted = [kind for kind in PEERS if not args.peers or kind.name.lower() in args.peers.lower().split(",")]
    brains = [name for name in BRAINS if not args.brains or any(word in name for word in args.brains.split(","))]
    rows: list[Row] = []
    ready: list[type[Peer]] = []
    for kind in wanted:
        try:
            print(f"{kind.name} {kind().version()}", flush=True)
            ready.append(kind)
        except (OSError, subprocess.SubprocessError, ValueError) as problem:
            rows.append(Row("all", kind.name, "not run", str(problem)))
    for name in brains:
        for kind in ready:
            rows.append(await play(kind, name))
            print(json.dumps(rows[-1]._asdict()), file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="install the other agents first")
    parser.add_argument("--peers", default="", help="only these, by name, separated by commas")
    parser.add_argument("--brains", default="", help="only brains whose names contain one of these words")
    parser.add_argument("--out", help="also write the table to this file")
    args = parser.parse_args()
    if args.install:
        install()
    rows = anyio.run(measure, args)
    text = "\n".join(table(rows))
    print(text)
    if args.out:
        Path(args.out).write_text(text + "\n")


if __name__ == "__main__":
    main()
