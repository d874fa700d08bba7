"""Let a model or an agent work on tasks, check what it did, and print a table of success, steps, tokens, cost and time.

  hames eval evals/tasks --model anthropic/claude-sonnet-5-5 --repeat 3 --jobs 4 --budget 2.00
  hames eval evals/tasks --agent oracle              play each task's own solution: no key, no network
  hames eval evals/tasks --agent codex --only 'fix-*'
  hames eval my-task --command 'claude -p {prompt}'  any other program, started in the workspace

A task is a folder with a prompt (task.toml), a workspace and a check (see docs/eval.md). Each trial has a temporary
workspace of its own. Nothing is asked: commands run in the sandbox, and so do the tasks' own scripts.

Agents that need no model: `oracle` plays the solution, `perturbed` the solution with mistakes in between, and
`nothing` answers without doing anything (no task should pass).

With --out the folder gets results.json and, for each trial, the trajectory (in ATIF, Harbor's format) and what the
check said.
Exit code: 0 if every trial passed, 1 if not, 2 for a bad option, 130 interrupted (what had ended is shown).
"""

import os
import shlex
import shutil
import signal
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hames.cli import flags
from hames.domain.errors import HarnessError, InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hames.evals.results import EvalReport, TrialResult
    from hames.evals.tasks import EvalTask
    from hames.evals.trial import Contender

INTERRUPTED = 130
TERMS = ("--model", "--agent", "--sandbox", "--log-file", "--log-level")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("tasks", nargs="*", metavar="DIR", help="a task, or a folder of tasks")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="only tasks with names like this")
    parser.add_argument("--command", metavar="CMD", help="use this agent program; {prompt} is the prompt, else stdin")
    parser.add_argument("--repeat", metavar="N", type=flags.positive, default=1, help="trials per task (default: 1)")
    parser.add_argument("--jobs", metavar="N", type=flags.positive, default=1, help="trials at a time (default: 1)")
    parser.add_argument("--budget", metavar="USD", type=_dollars, help="stop when this much money is spent")
    parser.add_argument("--out", metavar="DIR", help="save results.json and the trajectories here")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--keep", action="store_true", help="keep the workspaces and print where they are")
    parser.add_argument("--export-harbor", metavar="DIR", help="write the tasks in Harbor's layout here and stop")
    parser.add_argument("--list", action="store_true", help="list the tasks and stop")
    flags.add_shared(parser, TERMS)


def run(args: Namespace) -> int:
    import anyio

    from hames.evals.evaluation import KEPT, EvalPlan, evaluate
    from hames.evals.results import as_json, failures, table
    from hames.evals.tasks import find_tasks

    if not args.tasks:
        raise InvalidCommand("which tasks? Name a task or a folder of tasks: hames eval DIR")
    tasks = find_tasks([Path(name) for name in args.tasks], only=args.only)
    if args.list:
        width = max(len(task.name) for task in tasks)
        print("\n".join(f"{task.name.ljust(width)}  {task.category}".rstrip() for task in tasks))
        return 0
    if args.export_harbor:
        return _export(tasks, _output_folder(args.export_harbor))
    contender = _contender(args)
    options = flags.options(args)
    _set_up_logs(args)
    out = _output_folder(args.out) if args.out else None
    folder = Path(tempfile.mkdtemp(prefix="hames-eval-"))
    plan = EvalPlan(contender=contender, tasks=tuple(tasks), repeat=args.repeat, jobs=args.jobs, budget=args.budget)
    total = len(tasks) * args.repeat
    progress = _Progress(total)
    try:
        found = anyio.run(_run_until_stopped, partial(evaluate, plan, options, folder, on_result=progress.show))
        if out is not None:
            (out / "results.json").write_text(as_json(found) + "\n", encoding="utf-8")
            for result in found.results:
                _copy(folder / f"{result.task}-{result.number}", out / f"{result.task}-{result.number}", KEPT)
    finally:
        if args.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(as_json(found) if args.json else table(found))
    if not args.json and (lines := failures(found)):
        print("\nnot passed:\n" + "\n".join(f"  {line}" for line in lines))
    if found.trials < total:
        print(f"\ninterrupted: {found.trials} of {total} trials ended", file=sys.stderr)
        return INTERRUPTED
    return 0 if found.passed == found.trials else 1


async def _run_until_stopped(run: "Callable[..., Awaitable[EvalReport]]") -> "EvalReport":
    """What had ended before Ctrl+C or SIGTERM is reported: it may have cost money."""
    import anyio

    stop = anyio.CancelScope()

    async def watch() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                stop.cancel()

    ended: EvalReport | HarnessError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            ended = await run(stop=stop)
        except HarnessError as problem:  # alone, not in a group of errors
            ended = problem
        tasks.cancel_scope.cancel()
    if isinstance(ended, HarnessError):
        raise ended
    assert ended is not None
    return ended


def _contender(args: Namespace) -> "Contender":
    from hames.evals.solutions import SCRIPTED_AGENTS
    from hames.evals.trial import Contender

    if args.command is not None:
        if args.model or args.agent:
            raise InvalidCommand("--command can't be used with --model or --agent")
        try:
            words = tuple(shlex.split(args.command))
        except ValueError as problem:
            raise InvalidCommand(f"--command cannot be read: {problem}") from None
        if not words:
            raise InvalidCommand("--command is empty")
        return Contender(name=args.command, command=words)
    if args.agent in SCRIPTED_AGENTS:
        if args.model:
            raise InvalidCommand(f"the agent {args.agent!r} plays a script and has no model")
        name, args.agent = args.agent, None
        return Contender(name=name, scripted=SCRIPTED_AGENTS[name])
    model = flags.options(args).model
    return Contender(name=model or "the default model", model=model)


def _set_up_logs(args: Namespace) -> None:
    import logging

    if args.log_file or args.log_level:
        from hames import logs

        logs.set_up(level=args.log_level or "warning", file=args.log_file or "")
    else:
        logging.getLogger().addHandler(logging.NullHandler())


def _output_folder(name: str) -> Path:
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidCommand(f"cannot write to {name!r}: {problem.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise InvalidCommand(f"cannot write to {name!r}")
    return folder


def _export(tasks: "Sequence[EvalTask]", folder: Path) -> int:
    from hames.evals.harbor.export import export_task

    for task in tasks:
        print(export_task(task, folder))
    return 0


def _copy(source: Path, target: Path, names: tuple[str, ...]) -> None:
    target.mkdir(exist_ok=True)
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


class _Progress:
    """A line per trial on stderr, where that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def show(self, result: "TrialResult") -> None:
        self._done += 1
        if sys.stderr.isatty():
            word = "passed" if result.passed else f"not passed ({result.ending})"
            print(f"{self._done}/{self._total}  {result.task} ({result.number})  {word}", file=sys.stderr)


def _dollars(word: str) -> float:
    try:
        dollars = float(word.removeprefix("$"))
    except ValueError:
        dollars = 0.0
    if not 0 < dollars < float("inf"):
        raise ArgumentTypeError(f"{word!r} is not an amount of US dollars above 0")
    return dollars
