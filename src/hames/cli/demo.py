"""A demo task with a fake model: needs no key and no network, and works in a temporary directory.

  hames demo             the agent reads a failing test, runs it, fixes the code and runs it again
  hames demo --ask       answer the approvals yourself
  hames demo --keep      keep the directory and print its path

The model plays a script. Everything else is real: the server, its protocol, the tools, the sandbox and the log.
"""

import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from importlib.resources import files
from pathlib import Path

import anyio

from hames.app.sandboxes import describe_sandbox, find_system_program
from hames.cli.output.terminal import TerminalView
from hames.cli.paint import Paint
from hames.cli.wrapping import columns, fold
from hames.client.appserver import events as agent_events
from hames.client.appserver.client import AppServerClient
from hames.domain.display import visible
from hames.executables import hames_command
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m

WITHOUT_SANDBOX = (
    "This machine has no sandbox, so the commands of this demo run without one, with all your rights. They come from"
    " the script and run the tests in the temporary directory. Without a sandbox nothing limits what commands can do."
)
TASK = "Make the tests pass, and tell me what was wrong."


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--ask", action="store_true", help="answer the approvals yourself")
    parser.add_argument("--keep", action="store_true", help="keep the temporary directory")


def run(args: Namespace) -> int:
    directory = Path(tempfile.mkdtemp(prefix="hames-demo-"))
    try:
        return anyio.run(_demo, directory, args.ask)
    finally:
        if args.keep:
            print(f"\nkept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


async def _demo(directory: Path, ask: bool) -> int:
    paint = Paint.for_stream(sys.stdout)
    script = _copy_sample(directory)
    has_sandbox, description = await describe_sandbox()
    sandbox = "workspaceWrite" if has_sandbox else "dangerFullAccess"
    print(
        paint.bold("hames demo"), paint.dim(fold(f"a fake model and real tools, in {directory}", columns(sys.stdout)))
    )
    width = columns(sys.stdout)
    print(paint.dim(fold(f"sandbox: {description}", width)))
    if not has_sandbox:
        print(paint.warn(fold(WITHOUT_SANDBOX, width)))
    print(f"\n{paint.accent('›')} {paint.bold(TASK)}\n")
    words = ["app-server", "--cwd", str(directory / "shop"), "--data-dir", str(directory / "data")]
    words += ["--model", f"scripted/{script}", "--sandbox", sandbox]
    command = hames_command(*words, workspace=str(directory / "shop"))
    screen = DemoScreen(paint, ask=ask)
    async with AppServerClient.spawn(command, on_approval=screen.decide, name="hames-demo") as client:
        opened = await client.start_thread(cwd=str(directory / "shop"))
        with client.events() as events:
            await client.start_turn(opened.thread.id, TASK)
            async for event in events:
                screen.handle_event(event)
                if isinstance(event, agent_events.TurnCompleted):
                    return screen.outcome(event.turn)
    return 1


def _copy_sample(directory: Path) -> Path:
    source = files("hames.cli") / "demo_files"
    shop = directory / "shop"
    shop.mkdir()
    for name in ("cart.py", "test_cart.py"):
        (shop / name).write_text((source / name).read_text())
    # Not the one of a virtual environment: that may lie in a temporary directory, which the sandbox hides.
    python = find_system_program("python3") or Path(sys.executable).resolve()
    script = directory / "script.json"
    script.write_text((source / "script.json").read_text().replace("PYTHON", str(python)))
    return script


class DemoScreen(TerminalView):
    """Prints a turn as `hames run` does, and says yes to every question unless a person decides."""

    def __init__(self, paint: Paint, *, ask: bool) -> None:
        super().__init__(sys.stdout, sys.stdout, paint=paint, asks=ask)
        self._approvals = 0
        self._green = False
        self._tokens = 0

    async def decide(self, asked: agent_events.ApprovalAsked) -> m.ApprovalWord:
        self._approvals += 1
        if self._asks:
            return await super().decide(asked) or "decline"
        self._line(self._paint.warn(f"? allow this? {visible(asked.params.reason or '')}"))
        await anyio.sleep(0.8)
        self._line(self._paint.warn("  yes (the demo answers yes; with hames demo --ask you answer yourself)"))
        return "accept"

    def handle_event(self, event: agent_events.AgentEvent) -> None:
        super().handle_event(event)
        match event:
            case agent_events.ItemCompleted(item=wire.CommandExecutionItem(exit_code=code)):
                self._green = code == 0
            case agent_events.UsageUpdated(usage=usage):
                self._tokens = usage.output_tokens
            case _:
                pass

    def outcome(self, turn: m.Turn) -> int:
        """The exit code, after a line that says how it ended."""
        if turn.status == "completed" and self._green:
            counted = f"{self._approvals} approvals, {self._tokens} tokens out"
            self._line(self._paint.good(f"done: the tests pass; {counted}"))
            return 0
        why = turn.error.message if turn.error else "the tests still fail"
        self._line(self._paint.bad(f"the turn ended with status {turn.status}: {visible(why)}"))
        return 1
