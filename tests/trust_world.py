"""A workspace with things that rules deny, and an engine on it in which a model tries to get at them."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from hames.app import open_engine
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.approvals import Elicit
from hames.domain.commands import Command, ResolveApproval
from hames.domain.events import ApprovalRequested, TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.json import Json
from hames.domain.policy import ApprovalPolicy, DangerFullAccess, Decision, SandboxPolicy, WorkspaceWrite
from hames.domain.request import ModelEvent, ModelRequest
from hames.domain.rules import Rule, absolute_glob
from hames.ports import Agent, Models
from hames.testing.fakes.model import OneModel, ScriptedModel, Step, call, say
from support import started, until

CANARY = "canary-7f3a"
LOCKED = "locked\n"
Action = tuple[str, dict[str, Json]]

DENIES = (
    Rule(action="deny", command="touch *"),
    Rule(action="deny", read="secrets/**"),
    Rule(action="deny", write="*.lock"),
    Rule(action="deny", host="denied.test"),
)
ALLOWS = (
    Rule(action="allow", command="*"),
    Rule(action="allow", command="bash *"),
    Rule(action="allow", command="touch *"),
    Rule(action="allow", write="/**"),
    Rule(action="allow", read="/**"),
    Rule(action="allow", host="*"),
)
POLICIES: tuple[ApprovalPolicy, ...] = ("never", "onRequest", "unlessTrusted", "always")
SANDBOXES: tuple[SandboxPolicy, ...] = (WorkspaceWrite(), WorkspaceWrite(network_access=True), DangerFullAccess())


class TryingModel(ScriptedModel):
    """Says what it was given, and has nothing more to say after that, however often it is asked."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if len(self.requests) >= len(self._replies):
            self.add([say("done")])
        async for event in super().stream(request):
            yield event


def make_world(folder: Path) -> Path:
    workspace = folder / "workspace"
    (workspace / "secrets").mkdir(parents=True)
    (workspace / "src").mkdir()
    (workspace / "secrets" / "key.txt").write_text(f"{CANARY}\n")
    (workspace / "src" / "a.txt").write_text("text\n")
    (workspace / "uv.lock").write_text(LOCKED)
    (workspace / "link").symlink_to("secrets/key.txt")
    (folder / "home").mkdir()
    return workspace


def snapshot(workspace: Path) -> dict[str, bytes | str]:
    """Everything on the disk but our own data."""
    found: dict[str, bytes | str] = {}
    for path in sorted(workspace.rglob("*")):
        name = str(path.relative_to(workspace))
        if name.split("/", maxsplit=1)[0] != ".harness":
            found[name] = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
    return found


def assert_nothing_denied_happened(workspace: Path, model: TryingModel, story: object) -> None:
    assert not (workspace / "marker").exists(), story
    assert (workspace / "uv.lock").read_text() == LOCKED, story
    assert (workspace / "secrets" / "key.txt").read_text() == f"{CANARY}\n", story
    for request in model.requests:
        for message in request.messages:
            assert CANARY not in str(message), story


def in_file(rules: Sequence[Rule]) -> str:
    return "\n".join(f'[[rules]]\naction = "{rule.action}"\n{rule.subject} = "{rule.pattern}"\n' for rule in rules)


def in_thread(rules: Sequence[Rule], workspace: Path) -> tuple[Rule, ...]:
    """A thread has rules with absolute paths, as every protocol gives them."""

    def made(rule: Rule) -> Rule:
        if rule.subject not in ("read", "write"):
            return rule
        glob = absolute_glob(rule.pattern, base=str(workspace), home="/nowhere")
        return Rule(action=rule.action, **{rule.subject: glob})  # type: ignore[arg-type]

    return tuple(map(made, rules))


@asynccontextmanager
async def house(
    workspace: Path,
    model: ScriptedModel,
    rules: Sequence[Rule],
    *,
    more: str = "",
    models: Models | None = None,
    agents: dict[str, Agent] | None = None,
    leaves_turns: bool = False,
    **environ: str,
) -> AsyncGenerator[Engine]:
    """`more` is put before the rules in the configuration."""
    file = workspace.parent / "config.toml"
    file.write_text(more + in_file(rules))
    environment = {
        "HOME": str(workspace.parent / "home"),
        "HAMES_CONFIG": str(file),
        "HAMES_STATE": str(workspace.parent / "state"),
        "PATH": os.environ["PATH"],
        **environ,
    }
    options = load({"cwd": str(workspace)}, environment)
    given = models or OneModel(model)
    async with open_engine(options, models=given, agents=agents, leaves_turns=leaves_turns) as engine:
        yield engine


async def one_turn(engine: Engine, thread_id: ThreadId, decision: Decision, *, command: Command | None = None) -> None:
    """A whole turn. Every question gets the same answer; a form is put aside."""
    watcher = await engine.watch(thread_id)
    with anyio.fail_after(60):
        if command is None:
            await started(engine, thread_id)
        else:
            await engine.execute(command)
        while True:
            for change in await until(watcher, lambda event: isinstance(event, ApprovalRequested | TurnEnded)):
                match change.record.event:
                    case ApprovalRequested(approval=approval):
                        answer: Decision = "reject" if isinstance(approval.intent, Elicit) else decision
                        await engine.execute(ResolveApproval(approval_id=approval.id, decision=answer))
                    case TurnEnded():
                        return
                    case _:
                        pass


def replies(actions: Sequence[Action]) -> list[list[Step]]:
    return [*([call(name, **arguments)] for name, arguments in actions), [say("done")]]


def shell(**arguments: Json) -> Action:
    return "shell", arguments
