"""One tool call: find, validate, prepare, decide, ask, run. A failure is a result the model reads."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import takewhile

import anyio
import msgspec
from anyio import to_thread
from msgspec.structs import replace

from hames.core.host_approvals import ask_about_host
from hames.core.rule_checks import judge_by_rules
from hames.core.tool_names import find_tool
from hames.core.turn import LoopTurn
from hames.domain.approvals import ChangeFiles, Harmless, Intent, RunCommand, UseTool
from hames.domain.arguments import forgive
from hames.domain.errors import BudgetReached, HarnessError, StorageFailed
from hames.domain.events import ItemCompleted, ItemStarted, Noticed
from hames.domain.grants import what_changed
from hames.domain.ids import CallId, ItemId
from hames.domain.items import USER_DECLINED, Call, CommandExecution, ItemStatus, Stream, ToolCall, ToolItem, ToolResult
from hames.domain.json import Json
from hames.domain.policy import ReadOnly
from hames.domain.rulings import Ruling, Verdict, decide, depends_on_trust
from hames.domain.schema import check
from hames.ports import Job, Tool, ToolFailed, TurnEvent, UnsavedFiles, Work

log = logging.getLogger(__name__)

JUDGE_SECONDS = 2.0
"""How long the trust in a command may be looked for. After that a person is asked."""

MAX_TOGETHER = 8
"""How many calls that only look run at the same time."""

DECLINED = "The user declined this. Do not try it again in another way; ask, or go on without it."
NOT_EXECUTED = "not executed: an earlier call of the same reply failed"
SKIPPED = "skipped: an earlier call of the same reply failed"


async def hold_tools(turn: LoopTurn, calls: Sequence[Call]) -> None:
    """Before the calls of a reply: none is carried out if the reply used up a budget and nobody allows more."""
    if turn.budget is not None:
        try:
            await turn.budget.hold_tools()
        except BudgetReached as reached:
            await skip(turn, calls, str(reached))
            raise


async def carry_out_all(turn: LoopTurn, calls: Sequence[Call]) -> None:
    """In order, until one fails; then the rest is skipped.

    Calls beside each other that only look run at the same time. They are told in order all the same, and one that
    fails does not keep the others from their answers.
    """
    at = 0
    while at < len(calls):
        looks = _looks(turn, calls[at : at + MAX_TOGETHER])
        went_well = await _look_together(turn, looks) if len(looks) > 1 else await carry_out(turn, calls[at])
        at += max(1, len(looks))
        if not went_well:
            await skip(turn, calls[at:])  # the model reads why, and reassesses
            return


async def carry_out(
    turn: LoopTurn,
    call: Call,
    *,
    waiting: ItemId | None = None,
    item_id: ItemId | None = None,
    is_started: bool = False,
    is_approved: bool = False,
) -> bool:
    """False if it was refused, declined or could not be carried out; the loop stops at the first such call.

    A command that ran is none of these, whatever its exit code: a search without a match, a test that fails.

    `waiting` is the item of a call whose approval was asked by a process that stopped: it has been started, and is
    asked about again whatever the rules say now. `item_id` names the item of any other call. `is_started`: that item
    is there already. `is_approved`: a person has agreed to it already, so only what is forbidden is not done.
    """
    try:
        job, tool, dropped = _understood(turn, call, waiting or item_id)
        prepared = await tool.prepare(job)
    except ToolFailed as reason:
        if (shown := waiting or (item_id if is_started else None)) is not None:
            return await _refused(turn, shown, "failed", ToolResult(text=str(reason), failed=True))
        return await _failed(turn, call, _shown(call), str(reason), item_id)
    # Judged first: a command that is about to be asked about must not be shown as running meanwhile.
    ruling = await _rule(turn, prepared)
    log.debug("tool.called", extra={**_logged(turn, call), "ruling": ruling.action})
    if waiting is None and not is_started:
        await turn.handle.start(prepared.item)
    item_id = job.item_id
    if ruling.action == "deny":  # and nobody declined it
        refusal = ToolResult(text=f"not allowed: {ruling.reason}", failed=True, reason=ruling.reason)
        return await _refused(turn, item_id, "failed", refusal)
    asks = ruling.action == "ask" or (waiting is not None and not isinstance(prepared.intent, Harmless))
    asks = asks and not is_approved
    if asks and (declined := await _ask(turn, prepared, ruling)):
        return await _refused(turn, item_id, "declined", declined)
    if changed := await _changed_meanwhile(turn, tool, job, prepared):
        text = f"not started: {changed}. Call the tool again"
        return await _refused(turn, item_id, "failed", ToolResult(text=text, failed=True, reason=changed))
    await _save_unsaved(turn, prepared.intent)
    started = turn.clock.monotonic()
    async with _kept_for_undo(turn, prepared.intent, ruling):
        finished = await _run(turn, prepared, ruling)
    took = round((turn.clock.monotonic() - started) * 1000)
    log.info("tool.ended", extra={**_logged(turn, call), "status": finished.status, "ms": took})
    return await _complete(turn, finished, dropped)


async def prepare_read(turn: LoopTurn, path: str) -> Work:
    """The tool `read`, prepared for a file that may be read. Raises `ToolFailed`."""
    call = Call(id=CallId("read"), name="read", arguments=msgspec.json.encode({"path": path}).decode())
    job, tool, _ = _understood(turn, call)
    work = await tool.prepare(job)
    if (ruling := await _rule(turn, work)).action != "allow":
        raise ToolFailed(f"not allowed: {ruling.reason}")
    return work


async def _complete(turn: LoopTurn, finished: ToolItem, dropped: tuple[str, ...]) -> bool:
    if dropped and finished.result is not None:
        names = ", ".join(f"`{name}`" for name in dropped)
        text = f"{finished.result.text}\n[{names} {'is' if len(dropped) == 1 else 'are'} not known and had no effect]"
        finished = replace(finished, result=replace(finished.result, text=text))
    await turn.handle.complete(finished)
    ran = isinstance(finished, CommandExecution) and finished.exit_code is not None
    return ran or not (finished.result and finished.result.failed)


def _understood(turn: LoopTurn, call: Call, item_id: ItemId | None = None) -> tuple[Job, Tool, tuple[str, ...]]:
    """What the model wants, in the tool's own words, and what it said that nobody knows. Raises `ToolFailed`."""
    found = find_tool(turn.tools, call.name)
    if found is None:
        raise ToolFailed(_no_tool(turn, call.name))
    tool, form = found
    arguments = _decoded(call, form.schema if form and form.schema else tool.spec.schema)
    dropped: tuple[str, ...] = ()
    if form is not None:
        if form.schema is not None:
            arguments, dropped = forgive(arguments, form.schema)
            _check(arguments, form.schema)
        if not isinstance(arguments, dict):
            raise ToolFailed("the arguments are not valid: they must be an object")
        name, arguments = form.translate(arguments)
        if name not in turn.tools:
            raise ToolFailed(_no_tool(turn, name))
        tool = turn.tools[name]
    arguments, more = forgive(arguments, tool.spec.schema)
    _check(arguments, tool.spec.schema)
    item_id = item_id or turn.handle.new_item_id()
    job = Job(
        call=replace(call, name=tool.spec.name),
        arguments=arguments,
        item_id=item_id,
        step=turn.step,
        place=turn.place,
        ask=lambda question: turn.handle.ask(item_id, question),
        ask_host=None if turn.settings.approval_policy == "never" else partial(ask_about_host, turn, item_id),
    )
    return job, tool, (*dropped, *more)


def _no_tool(turn: LoopTurn, name: str) -> str:
    offered = ", ".join(sorted(tool.name for tool in turn.offered)) or "none"
    why = turn.not_offered.get(name, "")
    return f"there is no tool {name!r}{why}; the tools are: {offered}"


def _check(arguments: Json, schema: Json) -> None:
    if complaint := check(arguments, schema):
        raise ToolFailed(f"the arguments are not valid: {complaint}")


def _decoded(call: Call, schema: Json) -> Json:
    """The arguments as JSON. Text that is none becomes the one argument of a tool that takes one text."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError) as problem:
        required = schema.get("required") if isinstance(schema, dict) else None
        if (
            isinstance(required, list)
            and len(required) == 1
            and not call.arguments.lstrip().startswith(("{", "[", '"'))
        ):
            return {required[0]: call.arguments}
        raise ToolFailed(f"the arguments are not JSON: {problem}") from None
    if isinstance(arguments, str):  # encoded twice
        with suppress(msgspec.DecodeError, RecursionError):
            arguments = msgspec.json.decode(arguments)
    return arguments


def _looks(turn: LoopTurn, calls: Sequence[Call]) -> list[Call]:
    """The calls at the beginning that only look."""

    def only_looks(call: Call) -> bool:
        found = find_tool(turn.tools, call.name)
        return found is not None and found.tool.spec.parallel

    return list(takewhile(only_looks, calls))


async def _look_together(turn: LoopTurn, calls: Sequence[Call]) -> bool:
    looks = [_Look(turn, call) for call in calls]
    went_well, failure = True, None
    async with anyio.create_task_group() as tasks:
        for look in looks:
            tasks.start_soon(look.run)
        try:
            for look in looks:
                went_well = await look.show() and went_well
        except HarnessError as error:
            failure = error  # a task group would wrap it, and the engine looks at its type
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return went_well


class _Look:
    """A call that only looks, on its way beside others."""

    def __init__(self, turn: LoopTurn, call: Call) -> None:
        self._turn = turn
        self._call = call
        self._prepared = anyio.Event()
        self._done = anyio.Event()
        self._work: Work | None = None
        self._finished: ToolItem | None = None
        self._dropped: tuple[str, ...] = ()
        self._reason = ""

    async def run(self) -> None:
        """Raises nothing."""
        try:
            job, tool, self._dropped = _understood(self._turn, self._call)
            work = await tool.prepare(job)
            if not isinstance(work.intent, Harmless):
                raise ToolFailed("this call cannot run beside others; make it alone")
            ruling = await _rule(self._turn, work)
            if ruling.action != "allow":
                raise ToolFailed(f"not allowed beside other calls; make it alone. It is {ruling.reason}")
            self._work = work
            self._prepared.set()
            self._finished = await _run(self._turn, work, ruling)
        except ToolFailed as reason:
            self._reason = str(reason)
        finally:
            self._prepared.set()
            self._done.set()

    async def show(self) -> bool:
        """Tells it as if it had run alone. True if it went well."""
        await self._prepared.wait()
        if self._work is None:
            return await _failed(self._turn, self._call, _shown(self._call), self._reason)
        await self._turn.handle.start(self._work.item)
        await self._done.wait()
        assert self._finished is not None
        log.info("tool.ended", extra={**_logged(self._turn, self._call), "status": self._finished.status})
        return await _complete(self._turn, self._finished, self._dropped)


async def skip(turn: LoopTurn, calls: Sequence[Call], why: str = "") -> None:
    """Shows calls that are not executed: an earlier one of their reply failed, or what `why` says."""
    text, reason = (f"not executed: {why}", f"skipped: {why}") if why else (NOT_EXECUTED, SKIPPED)
    events: list[TurnEvent] = []
    for call in calls:
        item = ToolCall(
            id=turn.handle.new_item_id(),
            step=turn.step,
            call_id=call.id,
            name=call.name,
            arguments=_shown(call),
            status="skipped",
            result=ToolResult(text=text, failed=True, reason=reason),
        )
        events += [
            ItemStarted(turn_id=turn.turn_id, item=item),
            ItemCompleted(turn_id=turn.turn_id, item=item),
        ]
    if events:
        await turn.handle.emit(*events)


def _shown(call: Call) -> Json:
    """The arguments for people: as JSON if they are, else as the text they are."""
    try:
        return msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return {"text": call.arguments}


async def _judge(turn: LoopTurn, intent: RunCommand) -> Verdict:
    """In a thread and with a deadline, so that no command and no hung file system delays anybody else."""
    judge = partial(turn.trust.judge, intent.command, cwd=intent.cwd, workspace=turn.place.workspace)
    with anyio.move_on_after(JUDGE_SECONDS):
        return await to_thread.run_sync(judge, abandon_on_cancel=True)
    return Verdict(trusted=False, reason="the safety check took too long")


async def _rule(turn: LoopTurn, prepared: Work) -> Ruling:
    intent = prepared.intent
    verdict = Verdict(trusted=False)
    trust_matters = depends_on_trust(turn.settings.approval_policy, turn.place.sandbox)
    judged = await judge_by_rules(turn.rulebook, intent, replace(turn.settings, sandbox=turn.place.sandbox))
    if isinstance(intent, RunCommand) and not intent.process and trust_matters and judged.action != "deny":
        verdict = await _judge(turn, intent)
    return decide(
        intent,
        policy=turn.settings.approval_policy,
        sandbox=turn.place.sandbox,
        grants=turn.handle.state.grants,
        verdict=verdict,
        rules=judged,
        agent=turn.settings.agent,
    )


async def _ask(turn: LoopTurn, prepared: Work, ruling: Ruling) -> ToolResult | None:
    """None if a person agreed."""
    intent = prepared.intent
    if isinstance(intent, Harmless):  # a rule asks about what no policy asks about
        intent = UseTool(
            name=getattr(prepared.item, "name", "read"), arguments=getattr(prepared.item, "arguments", None)
        )
    answer = await turn.handle.ask(prepared.item.id, intent, ruling.reason, ruling=ruling)
    if answer.decision in ("once", "always"):
        return None
    text = f"{DECLINED} They said: {answer.note}" if answer.note else DECLINED
    return ToolResult(text=text, failed=True, reason=answer.note or USER_DECLINED)


async def _save_unsaved(turn: LoopTurn, intent: Intent) -> None:
    """An editor may show more than the file has; the change was made from what it shows."""
    files = turn.place.files
    if isinstance(intent, ChangeFiles) and isinstance(files, UnsavedFiles):
        await to_thread.run_sync(files.save_unsaved, [change.path for change in intent.changes])


@asynccontextmanager
async def _kept_for_undo(turn: LoopTurn, intent: Intent, ruling: Ruling) -> AsyncGenerator[None]:
    """What is about to be changed is kept first. A command that only reads needs nothing."""
    if turn.checkpoint is None or not await _may_write(turn, intent, ruling):
        yield
        return
    paths = [change.path for change in intent.changes] if isinstance(intent, ChangeFiles) else []
    if sentence := await turn.checkpoint.before_write(paths):
        notice = Noticed(source="hames", name="undo_limited", message=sentence, turn_id=turn.turn_id)
        await turn.handle.emit(notice)
    try:
        yield
    finally:
        turn.checkpoint.after_write()


async def _may_write(turn: LoopTurn, intent: Intent, ruling: Ruling) -> bool:
    if isinstance(intent, Harmless) or isinstance(ruling.sandbox, ReadOnly):
        return False
    if isinstance(intent, RunCommand) and not intent.process:
        return not (await _judge(turn, intent)).trusted
    return True


async def _changed_meanwhile(turn: LoopTurn, tool: Tool, job: Job, prepared: Work) -> str:
    """What is no longer as it was judged or shown, right before it starts; empty when all of it is."""
    intent = prepared.intent
    if not isinstance(intent, RunCommand) or not intent.scripts:
        return ""
    policy = turn.settings.approval_policy
    shown = intent.unsandboxed or policy == "always" or depends_on_trust(policy, turn.place.sandbox)
    if not shown:
        return ""  # nobody judged it and nobody was shown it
    try:
        now = (await tool.prepare(job)).intent
    except ToolFailed as reason:
        return str(reason)
    assert isinstance(now, RunCommand)
    difference = what_changed(intent.scripts, now.scripts, cwd=intent.cwd)
    return f"{difference} while this waited" if difference else ""


async def _run(turn: LoopTurn, prepared: Work, ruling: Ruling) -> ToolItem:
    item_id = prepared.item.id

    async def tell(text: str, stream: Stream = "output") -> None:
        await turn.handle.append(item_id, text, stream)

    try:
        return await prepared.run(tell, ruling.sandbox)
    except StorageFailed:
        raise
    except (ToolFailed, HarnessError) as reason:
        return _failed_item(prepared.item, str(reason))
    except Exception as bug:
        log.exception("tool.crashed", extra={"tool": type(prepared.item).__name__})
        return _failed_item(prepared.item, f"the tool failed: {type(bug).__name__}: {bug}")


def _failed_item(item: ToolItem, text: str) -> ToolItem:
    return replace(item, status="failed", result=ToolResult(text=text, failed=True))


def _logged(turn: LoopTurn, call: Call) -> dict[str, object]:
    """The fields of a log line. The arguments are not among them: they may hold anything."""
    return {"thread_id": turn.handle.thread_id, "tool": call.name, "step": turn.step}


async def _refused(turn: LoopTurn, item_id: ItemId, status: ItemStatus, result: ToolResult) -> bool:
    with anyio.CancelScope(shield=True):  # whoever refuses may stop the turn in the same breath
        await turn.complete(item_id, status, result=result)
    return False


async def _failed(turn: LoopTurn, call: Call, arguments: Json, text: str, item_id: ItemId | None = None) -> bool:
    """It never got as far as doing anything, and people see that it was tried."""
    log.info("tool.refused", extra={**_logged(turn, call), "why": text})
    item_id = item_id or turn.handle.new_item_id()
    item = ToolCall(id=item_id, step=turn.step, call_id=call.id, name=call.name, arguments=arguments)
    done = replace(item, status="failed", result=ToolResult(text=text, failed=True))
    await turn.handle.emit(ItemStarted(turn_id=turn.turn_id, item=item), ItemCompleted(turn_id=turn.turn_id, item=done))
    return False
