"""Decodes the requests to a sandbox runner into commands. Raises `InvalidCommand` and nothing else."""

from hames.domain.commands import (
    TURN_NAME,
    AddHistory,
    ChangeSettings,
    Command,
    CompactThread,
    ResolveApproval,
    StartReview,
    StartTurn,
    SteerTurn,
)
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ApprovalId, ThreadId, TurnId
from hames.domain.items import TextInput
from hames.domain.json import NOTHING, Json
from hames.domain.network import NetworkRules
from hames.domain.options import Overrides, Selector, Settings
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.state import ThreadState
from hames.protocols.body import decode_body
from hames.protocols.runner.messages import ApprovalAnswer, KnownThread, RunRequest, SteerRequest


def decode_run(body: bytes) -> RunRequest:
    run = decode_body(body, RunRequest)
    if run.task == "review" and run.target is None:
        raise InvalidCommand("a review needs a target")
    if run.task == "prompt" and not run.prompt.strip() and not run.content:
        raise InvalidCommand("the prompt is empty")
    return run


def overrides(
    run: RunRequest, state: ThreadState, defaults: Settings, selectors: tuple[Selector, ...], *, asks: bool
) -> Overrides:
    """All settings of the run: what it does not say is as the runner was started, whatever an earlier run said.

    `asks`: whoever starts the run says whether it is asked; nothing said means that it is not.
    """
    chosen = {one.id: one.default for one in selectors if one.id in state.settings.options}
    return Overrides(
        model=run.model or defaults.model,
        cwd=run.cwd or defaults.cwd,
        approval_policy=run.approval_policy or "never" if asks else defaults.approval_policy,
        sandbox=allowed_sandbox(run.sandbox, defaults.sandbox),
        agent=run.agent,
        options={**chosen, **run.options} or None,
        instructions="\n\n".join(part for part in (defaults.instructions, run.instructions) if part),
        base_instructions=run.base_instructions or defaults.base_instructions,
        mode_instructions=run.mode_instructions,
        personality=run.personality if run.personality != "none" else defaults.personality,
        mcp_servers=run.mcp_servers,
    )


def start(run: RunRequest, thread_id: ThreadId, settings: Overrides) -> StartTurn | StartReview | CompactThread:
    if run.task == "review" and run.target is not None:
        return StartReview(thread_id=thread_id, target=run.target)
    if run.task == "compact":
        return CompactThread(thread_id=thread_id)
    return StartTurn(
        thread_id=thread_id,
        content=run.content or (TextInput(text=run.prompt),),
        overrides=settings,
        output_schema=run.output_schema,
        meta={TURN_NAME: run.turn} if run.turn else NOTHING,
    )


def before(run: RunRequest, thread_id: ThreadId, settings: Overrides) -> list[Command]:
    """What has to be done before the run starts."""
    commands: list[Command] = []
    if run.history:
        commands.append(AddHistory(thread_id=thread_id, turns=run.history))
    if run.task != "prompt":
        commands.append(ChangeSettings(thread_id=thread_id, overrides=settings))
    return commands


def allowed_sandbox(wanted: SandboxPolicy | None, most: SandboxPolicy) -> SandboxPolicy:
    """The sandbox of a run, within what the runner was started with. Raises `InvalidCommand` for more than that."""
    match wanted:
        case None:
            return most
        case ReadOnly():
            return wanted
        case WorkspaceWrite() if isinstance(most, ExternalSandbox):
            return most  # the container is the sandbox, and there may be no other
        case _ if wanted == most or isinstance(most, DangerFullAccess | ExternalSandbox):
            return wanted
        case WorkspaceWrite(writable_roots=roots) if isinstance(most, WorkspaceWrite):
            if set(roots) <= set(most.writable_roots) and _reaches_no_more(wanted, most):
                return wanted
            raise InvalidCommand(
                "this runner allows workspaceWrite without more writable directories or network access than it was"
                " started with: set them in its own configuration"
            )
        case _:
            asked, limit = _policy_name(wanted), _policy_name(most)
            raise InvalidCommand(
                f"the sandbox policy is {asked}, and this runner allows at most {limit}: start it with"
                f" --sandbox {asked}, or change the policy of the thread"
            )


def _reaches_no_more(wanted: WorkspaceWrite, most: WorkspaceWrite) -> bool:
    limit, asked = most.hosts or NetworkRules(), wanted.hosts
    if limit.deny and not (asked and set(limit.deny) <= set(asked.deny)):
        return not wanted.network_access and asked is None
    if most.network_access:
        return True
    return not wanted.network_access and (
        asked is None or (most.hosts is not None and set(asked.allow) <= set(limit.allow))
    )


def decode_steer(body: bytes) -> SteerRequest:
    return decode_body(body, SteerRequest)


def has_no_sandbox(policy: SandboxPolicy) -> bool:
    """Whether runs are kept in by nothing of ours: then nothing that a client brings could leave it."""
    return isinstance(policy, DangerFullAccess | ExternalSandbox)


def steer_turn(said: SteerRequest, thread_id: ThreadId) -> SteerTurn:
    return SteerTurn(thread_id=thread_id, turn_id=TurnId(said.run), content=said.content)


def resolve_approval(body: bytes, approval_id: str) -> ResolveApproval:
    answer = decode_body(body, ApprovalAnswer)
    return ResolveApproval(
        approval_id=ApprovalId(approval_id), decision=answer.decision, note=answer.note, content=answer.content
    )


def known_thread(state: ThreadState | None) -> KnownThread:
    if state is None:
        return KnownThread()
    names = [_name(turn.meta) for turn in state.turns]
    return KnownThread(turns=tuple(name for name in names if name), unnamed=sum(not name for name in names))


def _name(meta: Json) -> str:
    found = meta.get(TURN_NAME) if isinstance(meta, dict) else ""
    return found if isinstance(found, str) else ""


def _policy_name(policy: SandboxPolicy) -> str:
    name = type(policy).__name__
    return name[0].lower() + name[1:]
