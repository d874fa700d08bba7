"""One tool call: find, validate, prepare, decide, ask, run. A failure is a result the model reads."""

import logging
from collections.abc import Sequence
from functools import partial

import anyio
import msgspec
from anyio import to_thread
from msgspec.structs import replace

from hames.core.turn import LoopTurn
from hames.domain.approvals import RunCommand
from hames.domain.errors import HarnessError, StorageFailed
from hames.domain.events import ItemCompleted, ItemStarted
from hames.domain.grants import what_changed
from hames.domain.ids import ItemId
from hames.domain.items import Call, CommandExecution, ItemStatus, Stream, ToolCall, ToolItem, ToolResult
from hames.domain.json import Json
from hames.domain.rulings import Ruling, Verdict, decide, depends_on_trust
from hames.domain.schema import check
from hames.ports import Job, Tool, ToolFailed, TurnEvent, Work

log = logging.getLogger(__name__)

JUDGE_SECONDS = 2.0
"""How long the trust in a command may be looked for. After that a person is asked."""

DECLINED = "The user declined this. Do not try it again in another way; ask, or go on without it."
NOT_EXECUTED = "not executed: an earlier call of the same reply failed"
SKIPPED = "skipped: an earlier call of the same reply failed"


async def carry_out(turn: LoopTurn, call: Call) -> bool:
    """False if it was refused, declined or could not be carried out; the loop stops at the first such call.

    A command that ran is none of these, whatever its exit code: a search without a match, a test that fails.
    """
    tool = turn.tools.get(call.name)
    if tool is None:
        offered = ", ".join(sorted(turn.tools)) or "none"
        why = turn.not_offered.get(call.name, "")
        reason = f"there is no tool {call.name!r}{why}; the tools are: {offered}"
        return await _failed(turn, call, _shown(call), reason)
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError) as problem:
        return await _failed(turn, call, _shown(call), f"the arguments are not JSON: {problem}")
    if complaint := check(arguments, tool.spec.schema):
        return await _failed(turn, call, arguments, f"the arguments are not valid: {complaint}")
    item_id = turn.handle.new_item_id()
    job = Job(
        call=call,
        arguments=arguments,
        item_id=item_id,
        step=turn.step,
        place=turn.place,
        ask=lambda question: turn.handle.ask(item_id, question),
    )
    try:
        prepared = await tool.prepare(job)
    except ToolFailed as reason:
        return await _failed(turn, call, arguments, str(reason))
    # Judged first: a command that is about to be asked about must not be shown as running meanwhile.
    ruling = await _rule(turn, prepared)
    log.debug("tool.called", extra={**_logged(turn, call), "ruling": ruling.action})
    await turn.handle.start(prepared.item)
    if ruling.action == "deny":  # and nobody declined it
        refusal = ToolResult(text=f"not allowed: {ruling.reason}", failed=True, reason=ruling.reason)
        return await _refused(turn, item_id, "failed", refusal)
    if ruling.action == "ask" and (declined := await _ask(turn, prepared, ruling)):
        return await _refused(turn, item_id, "declined", declined)
    if changed := await _changed_meanwhile(turn, tool, job, prepared):
        text = f"not started: {changed}. Call the tool again"
        return await _refused(turn, item_id, "failed", ToolResult(text=text, failed=True, reason=changed))
    started = turn.clock.monotonic()
    finished = await _run(turn, prepared, ruling)
    took = round((turn.clock.monotonic() - started) * 1000)
    log.info("tool.ended", extra={**_logged(turn, call), "status": finished.status, "ms": took})
    await turn.handle.complete(finished)
    ran = isinstance(finished, CommandExecution) and finished.exit_code is not None
    return ran or not (finished.result and finished.result.failed)


async def skip(turn: LoopTurn, calls: Sequence[Call]) -> None:
    """Shows calls that are not executed because an earlier one of their reply failed."""
    events: list[TurnEvent] = []
    for call in calls:
        item = ToolCall(
            id=turn.handle.new_item_id(),
            step=turn.step,
            call_id=call.id,
            name=call.name,
            arguments=_shown(call),
            status="skipped",
            result=ToolResult(text=NOT_EXECUTED, failed=True, reason=SKIPPED),
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
    if isinstance(intent, RunCommand) and not intent.process and trust_matters:
        verdict = await _judge(turn, intent)
    return decide(
        intent,
        policy=turn.settings.approval_policy,
        sandbox=turn.place.sandbox,
        grants=turn.handle.state.grants,
        verdict=verdict,
    )


async def _ask(turn: LoopTurn, prepared: Work, ruling: Ruling) -> ToolResult | None:
    """None if a person agreed."""
    answer = await turn.handle.ask(prepared.item.id, prepared.intent, ruling.reason)
    if answer.decision in ("once", "always"):
        return None
    text = f"{DECLINED} They said: {answer.note}" if answer.note else DECLINED
    return ToolResult(text=text, failed=True, reason=answer.note or "the user declined it")


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


async def _failed(turn: LoopTurn, call: Call, arguments: Json, text: str) -> bool:
    """It never got as far as doing anything, and people see that it was tried."""
    log.info("tool.refused", extra={**_logged(turn, call), "why": text})
    item = ToolCall(id=turn.handle.new_item_id(), step=turn.step, call_id=call.id, name=call.name, arguments=arguments)
    done = replace(item, status="failed", result=ToolResult(text=text, failed=True))
    await turn.handle.emit(ItemStarted(turn_id=turn.turn_id, item=item), ItemCompleted(turn_id=turn.turn_id, item=done))
    return False
