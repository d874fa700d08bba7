"""Send one prompt, print what the agent does, and end with an exit code for the result. Needs no terminal.

  hames run "Why does test_cart fail?"
  git diff | hames run "Review this change" --file -
  hames run --continue "And now fix it" --approval-policy never
  hames run --worktree "Try another way"  in a git worktree of its own
  hames run --continue                   go on with a turn that was cut off because Hames stopped
  hames run "List the public functions" --output-schema functions.schema.json > functions.json
  hames run "Fix the build" --json | jq -c 'select(.type == "item.completed")'

The agent's messages go to stdout, its commands and changes to stderr (with --quiet only the final message is printed).
With --json stdout has one event per line (see docs/ci.md); the last one has the final message as `answer`.
With --output-schema stdout has the answer as JSON that matches the schema.

If an approval is needed and nobody can answer, the turn stops and the exit code is 3. Run again with
--approval-policy never (commands stay in the sandbox), or continue with `hames --thread ID` in a terminal.

Exit code: 0 completed, 1 failed, 2 a bad option or an unknown model (nothing was started), 3 an approval is needed,
4 too many model calls, 5 the model's replies were cut off, 6 they were empty, 7 the same call failed again and again,
8 completed with an unfinished plan, 9 completed with changes for which nothing was run, 10 a budget is used up,
130 interrupted.
"""

import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import msgspec

from hames.app import check_attachments
from hames.cli import flags
from hames.cli.ask_server import reader_left
from hames.cli.in_process import in_process
from hames.cli.output.json_lines import JsonLinesView
from hames.cli.output.terminal import Ending, RunView, TerminalView, next_step
from hames.cli.paint import Paint
from hames.cli.stdio_server import add_remote
from hames.client.appserver import events as agent_events
from hames.client.appserver.client import AppServerClient, text_of
from hames.client.appserver.link import AppServerError, ConnectionClosed, Events
from hames.client.unreachable import Unreachable
from hames.config.load import Options
from hames.domain.cost import cost
from hames.domain.errors import InvalidCommand, Misconfigured
from hames.domain.forms import HARNESS
from hames.domain.json import Json
from hames.domain.models import Price
from hames.domain.output_schema import read_answer
from hames.domain.usage import Usage
from hames.protocols.flint import messages as m
from hames.protocols.flint.inbound import AGENT_OPTION, content
from hames.protocols.flint.items import LocalImageInput, UserInput
from hames.tui.completing import inputs
from hames.tui.text import listed_price

COMPLETED, FAILED, BAD_OPTION, NEEDS_APPROVAL, INTERRUPTED = 0, 1, 2, 3, 130
FAILURES = {"StepLimitReached": 4, "ReplyCutOff": 5, "EmptyReply": 6, "RepeatedFailure": 7, "BudgetReached": 10}
"""Turns that failed for a reason of which scripts may want to know."""
UNFINISHED = {"hames/plan_unfinished": 8, "hames/changes_unchecked": 9}
"""What a completed turn left undone although the model was told."""
NO_PROMPT = "the prompt is missing"
INVALID = -32602
"""flint's number for a request that makes no sense, such as one for a model that nobody knows."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", default="", help="what to do; - reads it from stdin")
    parser.add_argument("--file", metavar="FILE", help="a file whose text is added to the prompt; - is stdin")
    parser.add_argument("--image", metavar="FILE", action="append", default=[], help="attach a picture")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="last", action="store_true", help="continue the last thread")
    which.add_argument("--thread", metavar="ID", help="continue this thread")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print one event per line as JSON")
    how.add_argument("-q", "--quiet", action="store_true", help="print only the final message")
    parser.add_argument(
        "--output-schema", metavar="FILE", help="print the answer as JSON that matches this JSON Schema"
    )
    parser.add_argument(
        "--output-last-message", metavar="FILE", help="also write the agent's final message to this file"
    )
    parser.add_argument(
        "-o",
        "--option",
        metavar="ID=VALUE",
        action="append",
        default=[],
        help="an option of the model; hames models --options lists them",
    )
    parser.add_argument(
        "--attach", action="store_true", help="use the server that `hames serve` runs in this directory"
    )
    add_remote(parser)
    flags.add_worktree(parser)
    flags.add_budgets(parser)
    flags.add_shared(parser)
    parser.set_defaults(declines=False, wishes={}, own_default=True)


def run(args: Namespace) -> int:
    options = flags.with_budgets(flags.options(args), args)
    args.attach = args.attach or bool(args.server)
    args.new_worktree = flags.chosen_worktree(args)
    prompt = _prompt(args)
    wanted = read_schema(args.output_schema)
    parts: list[UserInput] = inputs(prompt, options.cwd) if prompt.strip() else []
    parts += [LocalImageInput(path=str(existing_file(name))) for name in args.image]
    view: RunView = (
        JsonLinesView(sys.stdout) if args.json else _terminal_view(args, quiet=args.quiet, alone=wanted is not None)
    )
    prompt_run = PromptRun(args, options, parts, view, wanted)
    return anyio.run(prompt_run.run, _connect(args, options))


def is_about_budget(asked: agent_events.ApprovalAsked) -> bool:
    return isinstance(asked.params, m.ElicitationParams) and asked.params.server_name == HARNESS


def _connect(args: Namespace, options: Options) -> AbstractAsyncContextManager[AppServerClient]:
    if not args.attach:
        return in_process(options, name="hames-run")
    from hames.cli.spawn import server_command
    from hames.tui.server_process import spawn_server

    return spawn_server(server_command(args, options, attach=True), name="hames-run")


def _terminal_view(args: Namespace, *, quiet: bool, alone: bool) -> TerminalView:
    asks = sys.stdin.isatty() and sys.stderr.isatty() and args.prompt != "-" and args.file != "-"
    view = TerminalView(
        None if alone or quiet else sys.stdout,
        None if quiet else sys.stderr,
        paint=Paint.for_stream(sys.stderr),
        asks=asks and not quiet,
    )
    view.final_only = quiet and not alone
    return view


class PromptRun:
    """A prompt, from the first request to the exit code."""

    def __init__(self, args: Namespace, options: Options, parts: list[UserInput], view: RunView, wanted: Json) -> None:
        self._args = args
        self._options = options
        self._parts = parts
        self._config = dict(_pair(word) for word in args.option)
        if args.mode:
            self._config.setdefault(AGENT_OPTION, options.agent)
        self._wishes: dict[str, str] = args.wishes
        self._view = view
        self._wanted = wanted
        self._outcome: int | None = None
        self._thread_id = ""
        self._turn_id = ""
        self._cut_off = ""
        """The turn that another process left running: it goes on, and comes before the prompt."""
        self._question: anyio.CancelScope | None = None
        """Around an approval that waits for its answer."""
        self._used: dict[str, m.Usage] = {}
        """By turn."""
        self._price: dict[str, float] | None = None
        self._unfinished: tuple[int, str] | None = None
        """The exit code of a completed turn that left something undone, and what that is."""

    async def run(self, reach: AbstractAsyncContextManager[AppServerClient]) -> int:
        try:
            async with reach as client:
                return await self._run(client)
        except Unreachable as failure:
            # A server that is not there is no bad option, even if the way to it says so.
            bad = failure.code == BAD_OPTION and not self._args.attach
            return self._end(BAD_OPTION if bad else FAILED, str(failure))

    async def _run(self, client: AppServerClient) -> int:
        code = INTERRUPTED
        try:
            await self._check(client)
            known = await self._named(client)
            early = client.events(known) if known else None  # a turn that goes on may end before we look
            thread_id = await self._open(client, known)
            with early if early is not None and self._cut_off else client.events(thread_id) as events:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._watch_signals, client, thread_id, tasks.cancel_scope)
                    tasks.start_soon(self._view.progress)
                    code = await self._guarded(self._turns(client, thread_id, events))
                    tasks.cancel_scope.cancel()
        except InvalidCommand as problem:
            return self._end(BAD_OPTION, str(problem))
        except AppServerError as refusal:
            return self._end(BAD_OPTION if refusal.code == INVALID else FAILED, str(refusal))
        except ConnectionClosed as failure:
            return self._end(FAILED, str(failure))
        return code

    async def _guarded(self, turns: Awaitable[int]) -> int:
        """What may go wrong in a turn, caught before it becomes a group of errors."""
        try:
            return await turns
        except (AppServerError, ConnectionClosed) as failure:
            return self._end(FAILED, str(failure))
        except BrokenPipeError:
            reader_left()
            return FAILED

    async def _check(self, client: AppServerClient) -> None:
        """Nothing is begun with what cannot be used. Raises `InvalidCommand`."""
        if self._config or self._wishes:
            await self._check_options(client)
        if self._parts:
            await check_attachments(content(self._parts), str(self._options.cwd))

    async def _check_options(self, client: AppServerClient) -> None:
        model = flags.chosen_model(self._args, self._options) or (await client.read_config(self._args.thread)).model
        offered = [
            option for option in await client.config_options() if not option.model_ids or model in option.model_ids
        ]
        known_ids = {option.id for option in offered}
        self._config |= {name: value for name, value in self._wishes.items() if name in known_ids}
        for name, value in self._config.items():
            choices = [choice.id for option in offered if option.id == name for choice in option.options]
            if not choices:
                known = ", ".join(dict.fromkeys(option.id for option in offered))
                raise InvalidCommand(f"{model} has no option {name!r}; its options are: {known}")
            if value not in choices:
                raise InvalidCommand(f"option {name!r} has no value {value!r}; its values are: {', '.join(choices)}")

    async def _named(self, client: AppServerClient) -> str:
        """The thread to continue; empty: a new one."""
        if not self._args.last:
            return self._args.thread or ""
        if (found := await client.latest_thread()) is None:
            raise AppServerError(0, "there is no thread to continue")
        return found.id

    async def _open(self, client: AppServerClient, thread_id: str) -> str:
        args, model = self._args, flags.chosen_model(self._args, self._options)
        policy = flags.chosen_policy(args, self._options)
        sandbox = flags.chosen_sandbox(args, self._options)
        if thread_id:
            opened = await client.resume_thread(thread_id, model=model)
            if policy or sandbox:
                await client.change_settings(opened.thread.id, approval_policy=policy, sandbox_policy=sandbox)
            last = opened.thread.turns[-1] if opened.thread.turns else None
            goes_on = last is not None and last.status == "inProgress" and not args.attach
            self._cut_off = last.id if last is not None and goes_on else ""
            if not self._cut_off and not self._parts:
                raise InvalidCommand(f"{NO_PROMPT}; no turn of this thread was cut off")
        else:
            where = None if args.server else str(self._options.cwd)  # a directory of this machine is not one there
            source = getattr(args, "thread_source", None)  # only `hames exec` has it
            meta = {"threadSource": source} if source else msgspec.UNSET
            opened = await client.start_thread(
                model=model,
                cwd=where,
                approval_policy=policy or flags.new_thread_policy(args, self._options),
                sandbox=sandbox,
                meta=meta,
                worktree=getattr(args, "new_worktree", None),  # `hames exec` has none
            )
        self._view.opened(opened)
        self._thread_id = opened.thread.id
        self._price = await self._price_of(client, opened.model)
        return opened.thread.id

    async def _price_of(self, client: AppServerClient, model: str) -> dict[str, float] | None:
        """Dollars per million tokens; None where they are unknown or would not be shown."""
        if not self._args.json and not sys.stderr.isatty():
            return None
        for known in await client.models(hidden=True):
            price = known.details.get("price") if known.id == model and isinstance(known.details, dict) else None
            if isinstance(price, dict):
                return price
        return None

    async def _turns(self, client: AppServerClient, thread_id: str, events: Events) -> int:
        if self._cut_off:
            turn = await self._follow(client, events, self._cut_off)
            if not self._parts or turn is None or turn.status != "completed":
                return self._ended(turn)
        turn = await self._turn(client, thread_id, events)
        if self._wanted is None or turn is None or turn.status != "completed":
            return self._ended(turn)
        answer, _ = read_answer(text_of(turn), self._wanted)
        self._view.answer(answer)
        return self._ended(turn, answer=answer)

    async def _turn(self, client: AppServerClient, thread_id: str, events: Events) -> m.Turn | None:
        config = self._config or None
        turn = await client.start_turn(thread_id, self._parts, config=config, output_schema=self._wanted)
        return await self._follow(client, events, turn.id)

    async def _follow(self, client: AppServerClient, events: Events, turn_id: str) -> m.Turn | None:
        self._turn_id = turn_id
        async for event in events:
            self._view.handle_event(event)
            match event:
                case agent_events.ApprovalAsked():
                    await self._decide(client, event)
                    if self._outcome == NEEDS_APPROVAL and turn_id == self._cut_off:
                        return None
                case agent_events.Unknown(method=method, params={"message": str(words)}) if method in UNFINISHED:
                    self._unfinished = self._unfinished or (UNFINISHED[method], words)
                case agent_events.UsageUpdated(turn_id=of_turn, usage=usage):
                    self._used[of_turn] = usage
                case agent_events.TurnCompleted(turn=ended) if ended.id == turn_id:
                    self._turn_id = ""
                    return ended
                case agent_events.Closed(why=why):
                    self._end(FAILED, why)
                    return None
                case _:
                    pass
        return None

    async def _decide(self, client: AppServerClient, asked: agent_events.ApprovalAsked) -> None:
        decision = None
        with anyio.CancelScope() as self._question:
            decision = await self._view.decide(asked)
        if self._outcome == INTERRUPTED:
            return  # by a signal, and so is the turn
        if decision is None and (self._args.declines or is_about_budget(asked)):
            decision = "decline"  # a turn whose budget nobody raises ends by itself, and says why
        if decision is not None:
            await client.answer(asked.request_id, decision)
            return
        self._outcome = NEEDS_APPROVAL
        if asked.params.turn_id != self._cut_off:  # that one may run in another process, where somebody can answer
            await client.interrupt_turn(asked.thread_id, asked.params.turn_id)

    async def _watch_signals(self, client: AppServerClient, thread_id: str, everything: anyio.CancelScope) -> None:
        """The first stops the turn and lets it end well, the second does not wait."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if self._outcome == INTERRUPTED or not self._turn_id:
                    everything.cancel()
                    return
                self._outcome = INTERRUPTED
                if self._question is not None:
                    self._question.cancel()
                await client.interrupt_turn(thread_id, self._turn_id)

    def _ended(self, turn: m.Turn | None, *, answer: Json = None) -> int:
        if turn is None:
            return FAILED if self._outcome is None else self._outcome
        why = turn.error.message if turn.error else ""
        codes = {"completed": COMPLETED, "interrupted": INTERRUPTED}
        code = codes.get(turn.status, FAILED)
        if code == INTERRUPTED and self._outcome is not None:
            code = self._outcome
        info = turn.error.error_info if turn.error and isinstance(turn.error.error_info, str) else ""
        hint = next_step(info, self._thread_id) if code == FAILED else ""
        if code == FAILED:
            code = FAILURES.get(info, FAILED)
        if code == COMPLETED and self._unfinished is not None:
            code, why = self._unfinished
            hint = next_step("", self._thread_id)
        if code == NEEDS_APPROVAL:
            why = "this needs an approval, and nobody can answer"
            hint = next_step("NeedsApproval", self._thread_id)
        return self._end(code, why, said=text_of(turn), answer=answer, hint=hint)

    def _end(self, code: int, why: str = "", *, said: str = "", answer: Json = None, hint: str = "") -> int:
        self._outcome = code
        if self._args.output_last_message:
            _write_message(self._args.output_last_message, said)
        usage = total_usage(self._used.values())
        cost = None if usage is None else _dollars(usage, listed_price(self._price))
        self._view.ended(Ending(code=code, why=why, said=said, answer=answer, hint=hint, usage=usage, cost=cost))
        return code


def total_usage(used: Collection[m.Usage]) -> m.Usage | None:
    """Of several turns together; None if there was none."""
    if not used:
        return None
    counts = [msgspec.structs.asdict(one) for one in used]
    return m.Usage(**{name: sum(count[name] for count in counts if isinstance(count[name], int)) for name in counts[0]})


def _dollars(usage: m.Usage, price: Price | None) -> float | None:
    return cost({"": msgspec.convert(usage, Usage, from_attributes=True)}, lambda _: price)


def _prompt(args: Namespace) -> str:
    if args.prompt == "-" and args.file == "-":
        raise InvalidCommand("stdin can be the prompt or the file, not both")
    words = args.prompt
    if words == "-" or (not words and not args.file and not sys.stdin.isatty()):
        words = sys.stdin.read()
    if args.file:
        added = sys.stdin.read() if args.file == "-" else _text(existing_file(args.file))
        words = f"{words}\n\n{added}" if words else added
    if not words.strip() and not (args.last or args.thread):  # these can go on with a turn that was cut off
        raise InvalidCommand(f'{NO_PROMPT}; for example: hames run "Fix the tests"')
    return words


def existing_file(name: str) -> Path:
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise InvalidCommand(f"no file {name!r}")
    return path


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise InvalidCommand(f"cannot read {str(path)!r}: {failure}") from None


def read_schema(name: str | None) -> Json:
    if name is None:
        return None
    try:
        found: Json = msgspec.json.decode(existing_file(name).read_bytes())
    except (OSError, msgspec.DecodeError) as failure:
        raise Misconfigured(f"{name!r} is not a JSON Schema: {failure}") from None
    if not isinstance(found, dict):
        raise Misconfigured(f"{name!r} is not a JSON Schema: it must be an object")
    return found


def _write_message(name: str, text: str) -> None:
    try:
        Path(name).expanduser().write_text(text + "\n" if text else "", encoding="utf-8", errors="replace")
    except OSError as failure:
        print(f"hames: cannot write {name!r}: {failure.strerror}", file=sys.stderr)


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals and value):
        raise InvalidCommand(
            f"write an option as ID=VALUE, not {word!r}; to save the final message in a file use"
            f" --output-last-message {word}"
        )
    return name, value
