"""The demo client: starts a bootstrap server, runs one turn, shows it, and asks you what the agent may do.

  python -m hames.client --cwd path/to/repo "Run the tests"

  --yes   approve every question once
  --no    allow nothing

Without a terminal to ask on, nothing is allowed. Ctrl-C cancels the turn. Exit code: 0 when the turn completed,
1 when it failed, 130 when it was cancelled.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # `python -m` puts the current directory there, and what lies in it must not be imported

import argparse
import signal
import threading
from typing import Literal

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

from hames.client.bootstrap import BootstrapClient, ConnectionClosed, Event, RequestFailed
from hames.client.show import Screen
from hames.executables import forget_current_directory, hames_command
from hames.protocols.bootstrap import messages as m

Decision = Literal["once", "always", "reject"]

ANSWERS: dict[str, Decision] = {
    "o": "once",
    "once": "once",
    "a": "always",
    "always": "always",
    "r": "reject",
    "reject": "reject",
}


class Demo:
    def __init__(self, client: BootstrapClient, screen: Screen, args: argparse.Namespace) -> None:
        self._client = client
        self._screen = screen
        self._args = args
        self._asking = anyio.CancelScope()

    async def run(self) -> int:
        args, code = self._args, 1
        thread = await self._client.create_thread()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._cancel_on_interrupt, thread.thread_id)
            async for event in self._client.turn(thread.thread_id, args.prompt, model=args.model, agent=args.agent):
                self._screen.show(event)
                if isinstance(event.params, m.ApprovalRequested):
                    await self._answer(event.params)
                code = _code(event)
            tasks.cancel_scope.cancel()
        return code

    async def _answer(self, asked: m.ApprovalRequested) -> None:
        self._screen.question(asked)
        with anyio.CancelScope() as self._asking:
            decision = await self._decision()
            try:
                await self._client.respond(asked.request_id, decision)
            except RequestFailed as failure:  # somebody else was faster, or the turn is over
                self._screen.line(str(failure))

    async def _decision(self) -> Decision:
        if self._args.yes:
            return "once"
        if self._args.no or not sys.stdin.isatty():
            return "reject"
        while True:
            self._screen.line("  [o]nce, [a]lways, [r]eject?")
            words = await _typed_line()
            if not words:
                return "reject"
            if decision := ANSWERS.get(words.strip().lower()):
                return decision

    async def _cancel_on_interrupt(self, thread_id: str) -> None:
        with anyio.open_signal_receiver(signal.SIGINT) as received:
            async for _ in received:
                self._asking.cancel()
                try:
                    await self._client.cancel_turn(thread_id)
                except RequestFailed as failure:
                    self._screen.line(str(failure))


async def _typed_line() -> str:
    """A line from the terminal. In a daemon thread: nothing can interrupt the read, and it must not keep us here."""
    token, typed = current_token(), anyio.Event()
    words = ""

    def read() -> None:
        nonlocal words
        words = sys.stdin.readline()
        from_thread.run_sync(typed.set, token=token)

    threading.Thread(target=read, daemon=True).start()
    await typed.wait()
    return words


def _code(event: Event) -> int:
    if not isinstance(event.params, m.TurnFailed):
        return 0
    return 130 if event.params.status == "cancelled" else 1


async def talk(args: argparse.Namespace) -> int:
    command = args.server or hames_command("harness", "--cwd", args.cwd, workspace=args.cwd)
    async with BootstrapClient.spawn(command) as client:
        await client.initialize("hames-demo")
        return await Demo(client, Screen(), args).run()


def main() -> int:
    forget_current_directory()
    parser = argparse.ArgumentParser(
        prog="python -m hames.client", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompt", help="what to do")
    parser.add_argument("--cwd", metavar="DIR", default=".", help="the workspace (default: here)")
    parser.add_argument("--model", metavar="PROVIDER/MODEL", help="the model to use")
    parser.add_argument("--agent", choices=["code", "plan", "review"], help="how the agent works: code, plan or review")
    parser.add_argument("--server", nargs=argparse.REMAINDER, metavar="COMMAND", help="start this server instead")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--yes", action="store_true", help="approve every question once")
    answer.add_argument("--no", action="store_true", help="reject every question")
    try:
        return anyio.run(talk, parser.parse_args())
    except (RequestFailed, ConnectionClosed) as failure:
        print(f"hames.client: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
