"""A real task on a scripted model: no key, no network, nothing outside a temporary directory.

  hames demo             a failing test is read, run, fixed and run again, with an approval on the way
  hames demo --ask       you decide about the approvals yourself
  hames demo --keep      leave the directory where it is and say where

The model is a script; everything else is what your own work would run on: the server, its protocol, the tools,
the sandbox and the log.
"""

import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from importlib.resources import files
from pathlib import Path

import anyio

from hames.app import describe_sandbox, find_system_program
from hames.cli.answers import read_answer
from hames.cli.paint import Paint, diff_lines
from hames.cli.wrapping import columns, fold
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.events import (
    ApprovalAsked,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    PlanUpdated,
    TurnCompleted,
    UsageUpdated,
)
from hames.domain.display import printable, visible
from hames.executables import hames_command
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m

WITHOUT_SANDBOX = (
    "This machine has no sandbox, so the commands of this demo run as you and without one. They are written in the"
    " script: they run the tests in the temporary directory. Nothing would keep other commands there."
)
TASK = "Make the tests pass, and tell me what was wrong."


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--ask", action="store_true", help="decide about the approvals yourself")
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
        paint.bold("hames demo"), paint.dim(fold(f"a scripted model, real tools, in {directory}", columns(sys.stdout)))
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
                match event:
                    case ItemStarted(item=item):
                        screen.started(item)
                    case ItemDelta():
                        screen.delta(event)
                    case ItemCompleted(item=item):
                        screen.completed(item)
                    case PlanUpdated(plan=plan):
                        screen.plan(plan)
                    case UsageUpdated(usage=usage):
                        screen.usage = usage
                    case TurnCompleted(turn=turn):
                        return screen.ended(turn)
                    case _:
                        pass
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


class DemoScreen:
    """Prints a turn as it happens, one block after the other."""

    def __init__(self, paint: Paint, *, ask: bool) -> None:
        self.usage: m.Usage | None = None
        self._paint = paint
        self._ask = ask
        self._column = False
        self._approvals = 0
        self._green = False

    async def decide(self, asked: ApprovalAsked) -> m.ApprovalWord:
        self._approvals += 1
        self._line(self._paint.warn(f"? may I? {visible(asked.params.reason or '')}"))
        if not self._ask:
            await anyio.sleep(0.8)
            self._line(self._paint.warn("  yes (this demo says yes; hames demo --ask lets you decide)"))
            return "accept"
        if asked.always_covers:
            self._line(self._paint.dim(f"  always: {visible(asked.always_covers)}"))
        keys = "[y]es, [a]lways, [n]o" if asked.offers_always else "[y]es, [n]o"
        answer = await read_answer(f"  {keys}: ")
        words: dict[str, m.ApprovalWord] = {"y": "accept"}
        if asked.offers_always:
            words["a"] = "acceptForSession"
        return words.get(answer.strip().lower()[:1], "decline")

    def started(self, item: wire.ThreadItem) -> None:
        match item:
            case wire.CommandExecutionItem(command=command):
                self._line(f"{self._paint.accent('$')} {self._paint.bold(visible(command))}")
            case wire.FileChangeItem(changes=changes):
                for change in changes:
                    self._line(f"{self._paint.accent('±')} {self._paint.bold(visible(Path(change.path).name))}")
                    for line in diff_lines(change.diff):
                        self._line(f"  {self._paint.diff(line)}")
            case wire.ToolCallItem(name=name, arguments=arguments):
                shown = ", ".join(f"{key}={value}" for key, value in (arguments or {}).items())
                self._line(self._paint.dim(f"· {name} {visible(shown)}"))
            case _:
                pass

    def delta(self, event: ItemDelta) -> None:
        if event.channel == "agentMessage/delta":
            self._write(printable(event.text))
        elif event.channel.startswith("reasoning/"):
            self._write(self._paint.dim(printable(event.text)))
        elif event.channel == "commandExecution/outputDelta":
            for line in event.text.splitlines():
                self._line(self._paint.dim(f"  {printable(line)}"))

    def completed(self, item: wire.ThreadItem) -> None:
        if self._column:
            self._write("\n")
            self._column = False
        if isinstance(item, wire.CommandExecutionItem):
            good = self._green = item.exit_code == 0
            told = f"exit code {item.exit_code} after {(item.duration_ms or 0) / 1000:.1f} s"
            self._line(self._paint.good(f"  ✓ {told}") if good else self._paint.bad(f"  ✗ {told}"))
            self._line("")
        elif isinstance(item, wire.AgentMessageItem | wire.FileChangeItem):
            self._line("")

    def plan(self, plan: list[wire.PlanEntry]) -> None:
        marks = {"completed": "✓", "inProgress": "→", "failed": "✗", "pending": "·"}
        for entry in plan:
            self._line(self._paint.dim(f"  {marks.get(entry.status, '·')} {visible(entry.step)}"))

    def ended(self, turn: m.Turn) -> int:
        counted = f", {self.usage.output_tokens} tokens out" if self.usage else ""
        if turn.status == "completed" and self._green:
            self._line(self._paint.good(f"done: the tests pass; {self._approvals} approvals{counted}"))
            return 0
        if turn.status == "completed":
            self._line(self._paint.bad("the turn completed and the tests still fail"))
            return 1
        why = turn.error.message if turn.error else turn.status
        self._line(self._paint.bad(f"the turn ended as {turn.status}: {visible(why)}"))
        return 1

    def _write(self, text: str) -> None:
        print(text, end="", flush=True)
        self._column = self._column or bool(text.strip("\n"))

    def _line(self, text: str) -> None:
        if self._column:
            print()
            self._column = False
        print(text, flush=True)
