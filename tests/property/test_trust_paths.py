"""No path leads past a deny rule or plan mode: other hands than our own tools, and every client's ways.

Paths: tools of MCP servers and of clients, agents of ACP (their terminals and files), Codex, clients that change modes
and answer "always" over their own protocols, forks, restarts in the middle of a question. `test_trust_stories` has our
own tools, `test_budget_stories` the budgets.
"""

import os
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_support import Desk
from flint_support import Message, Talk, talking
from hames.agents.acp.agent import AcpAgent
from hames.agents.acp.models import AcpModels, CatalogFile
from hames.app import open_engine
from hames.clock_and_ids import SystemClock
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import (
    ChangeSettings,
    CreateThread,
    ForkThread,
    ResolveApproval,
    ResumeThread,
    StartTurn,
)
from hames.domain.events import ApprovalRequested
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput
from hames.domain.options import Overrides
from hames.domain.policy import DangerFullAccess, Decision
from hames.domain.rules import Rule
from hames.domain.state import ThreadState
from hames.protocols.flint.inbound import AGENT_OPTION
from hames.providers.catalogue import Catalogue
from hames.testing.fakes.model import call
from support import until
from trust_world import (
    ALLOWS,
    CANARY,
    DENIES,
    POLICIES,
    SANDBOXES,
    TryingModel,
    assert_nothing_denied_happened,
    house,
    make_world,
    one_turn,
    replies,
    shell,
    snapshot,
)

HERE = Path(__file__).parent
ACP_PROGRAM = HERE.parent / "integration" / "acp_agent_program.py"
MCP = f'[mcp_servers.hands]\ncommand = "{sys.executable}"\nargs = ["{HERE / "mcp_hands.py"}"]\n'
WIPE = Rule(action="deny", mcp="hands/wipe")

TOUCHES = (
    "touch marker",
    "true; touch marker",
    "bash -c 'touch marker'",
    "ls && env touch marker",
    "t'ou'ch marker",
)
"""The denied command, in ways that leave no doubt: it is refused and nobody is asked."""


def denied_paths(workspace: Path, name: str) -> tuple[str, ...]:
    return name, f"./{name}", f"src/../{name}", f"{workspace}/{name}", f"{workspace}/src/../{name}"


# -- deny rules, other hands


def mcp_action(draw: random.Random, workspace: Path) -> tuple[str, dict[str, Any]]:
    match draw.choice(("run", "open", "write", "wipe")):
        case "run":
            return "mcp__hands__run", {"command": draw.choice(TOUCHES)}
        case "open":
            path = draw.choice(
                (*denied_paths(workspace, "secrets/key.txt"), "link", f"file://{workspace}/secrets/key.txt")
            )
            return "mcp__hands__open", draw.choice(({"path": path}, {"options": {"path": path}}, {"paths": [path]}))
        case "write":
            return "mcp__hands__write", {"path": draw.choice(denied_paths(workspace, "uv.lock"))}
        case _:
            return "mcp__hands__wipe", {}


async def mcp_story(draw: random.Random, folder: Path) -> None:
    """Tools of a server: a rule about the tool, and rules about what the arguments name. Every question gets a no."""
    workspace, model = make_world(folder), TryingModel()
    rules = [*DENIES, WIPE, *draw.sample((*ALLOWS, Rule(action="allow", mcp="hands")), 3)]
    draw.shuffle(rules)
    policy, sandbox = draw.choice(POLICIES), draw.choice(SANDBOXES)
    actions = [mcp_action(draw, workspace) for _ in range(4)]
    story = [policy, type(sandbox).__name__, [f"{rule.action} {rule.subject}" for rule in rules], actions]
    async with house(workspace, model, rules, more=MCP) as opened:
        thread = await opened.execute(CreateThread(overrides=Overrides(approval_policy=policy, sandbox=sandbox)))
        assert isinstance(thread, ThreadState)
        # What is allowed for good first: the tool, with arguments that no rule is about.
        model.add(*replies([("mcp__hands__open", {"path": "src/a.txt"})]))
        await one_turn(opened, thread.id, "always")
        assert "text" in str(model.requests[-1].messages[-1]), "the server works"
        for action in actions:
            model.add(*replies([action]))
            # A rule about the tool itself leaves no doubt: a yes to whatever is asked does not help.
            await one_turn(opened, thread.id, "once" if action[0].endswith("wipe") else "reject")
            assert_nothing_denied_happened(workspace, model, story)


def acp_words(draw: random.Random, workspace: Path) -> str:
    secret, lock = draw.choice(denied_paths(workspace, "secrets/key.txt")), f"{workspace}/uv.lock"
    absolute = draw.choice((f"{workspace}/secrets/key.txt", f"{workspace}/src/../secrets/key.txt", f"{workspace}/link"))
    commands = (*TOUCHES, f"cat {secret}", f"echo changed > {lock}", f"cp {secret} copy; cat copy", "cat link")
    match draw.choice(("terminal", "handed", "read", "write")):
        case "terminal":
            return f"terminal {draw.choice(commands)}"
        case "handed":
            when, what = draw.choice(("announced", "running", "permitted")), draw.choice(("plain", "bash", "named"))
            return f"handed {when} {what} {draw.choice(commands)}"
        case "read":
            return f"read {absolute}"
        case _:
            return f"{draw.choice(('write', 'handed running write'))} {lock} changed"


async def acp_story(draw: random.Random, folder: Path, *, plan: bool = False) -> None:
    """An agent of ACP that has its terminals and files from us. What it does by itself is its own sandbox's affair."""
    workspace, model = make_world(folder), TryingModel()
    (folder / "theirs").mkdir()
    command, catalog = [sys.executable, str(ACP_PROGRAM), str(folder / "theirs")], CatalogFile(folder / "catalog.json")
    small = AcpAgent("small", command, memory=lambda: folder / "memory", environment={}, catalog=catalog)
    source = AcpModels("small", small.command, file=catalog, start=small.start)
    models = Catalogue({}, clock=SystemClock(), default="small/default", sources=[source])
    policy, sandbox = draw.choice(POLICIES), draw.choice(SANDBOXES)
    given = Overrides(approval_policy=policy, sandbox=sandbox, agent="plan" if plan else None)
    words = acp_words(draw, workspace)
    before, story = snapshot(workspace), [policy, type(sandbox).__name__, words]
    async with house(workspace, model, ALLOWS if plan else DENIES, models=models, agents={"small": small}) as opened:
        thread = await opened.execute(CreateThread(overrides=given))
        assert isinstance(thread, ThreadState)
        start = StartTurn(thread_id=thread.id, content=(TextInput(text=words),))
        await one_turn(opened, thread.id, draw.choice(("once", "always")) if plan else "reject", command=start)
        told = str(opened.loaded(thread.id))
    if plan:
        assert snapshot(workspace) == before, story
    else:
        assert_nothing_denied_happened(workspace, model, story)
        assert CANARY not in told, story


async def codex_story(draw: random.Random, folder: Path) -> None:
    """What Codex asks about is refused by the rule, and a person who says yes to everything is not asked."""
    workspace = make_world(folder)
    file = folder / "config.toml"
    file.write_text('[[rules]]\naction = "deny"\ncommand = "touch *"\n[[rules]]\naction = "deny"\nwrite = "*.lock"\n')
    environment = {
        "HOME": str(folder / "home"),
        "HAMES_CONFIG": str(file),
        "HAMES_STATE": str(folder / "state"),
        "HAMES_CODEX": str(HERE / "codex_hands.py"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    policy = draw.choice(("onRequest", "unlessTrusted", "always"))
    words = draw.choice((f"run {draw.choice(TOUCHES)}", f"change {workspace}/uv.lock"))
    flags = {"cwd": str(workspace), "model": "codex/default", "approval_policy": policy, "sandbox": "dangerFullAccess"}
    async with open_engine(load(flags, environment)) as opened:
        thread = await opened.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        for text in ("run echo seen > src/seen", words):
            start = StartTurn(thread_id=thread.id, content=(TextInput(text=text),))
            await one_turn(opened, thread.id, draw.choice(("once", "always")), command=start)
        state = opened.loaded(thread.id)
    assert state is not None
    assert (workspace / "src" / "seen").exists(), "what no rule is about is done"
    assert state.turns[-1].items[-1].status == "declined", (policy, words)  # type: ignore[union-attr]
    assert_nothing_denied_happened(workspace, TryingModel(), (policy, words))


# -- deny rules, every client's way to change a thread


PATCH = "*** Begin Patch\n*** Update File: uv.lock\n@@\n-locked\n+changed\n*** End Patch"


def certain(draw: random.Random) -> tuple[str, dict[str, Any]]:
    """What a rule denies for certain, so that a person who says yes to everything changes nothing."""
    return draw.choice(
        (
            shell(command=draw.choice(TOUCHES)),
            shell(command=draw.choice(TOUCHES), unsandboxed=True, justification="I must"),
            ("read", {"path": draw.choice(("secrets/key.txt", "link"))}),
            ("write", {"path": "uv.lock", "content": "changed"}),
            ("patch", {"patch": PATCH}),
            ("grep", {"pattern": "canary", "path": "."}),
        )
    )


ANSWERS = ("allow_once", "allow_always")
Client = Callable[[random.Random, Engine, TryingModel, Path], Awaitable[None]]
FLINT_POLICIES = {"test": POLICIES, "codex-some-editor": ("never", "on-request", "untrusted")}


async def flint_client(draw: random.Random, opened: Engine, model: TryingModel, workspace: Path, name: str) -> None:
    """Both forms of the app server's protocol: settings with the thread, the turn and of their own; every grant."""
    policies = FLINT_POLICIES[name]
    sandboxes: list[Message] = [{"type": "dangerFullAccess"}, {"type": "workspaceWrite", "networkAccess": True}]
    async with talking(opened, name) as flint:
        thread_id = await flint.start(cwd=str(workspace), approvalPolicy=draw.choice(policies))
        for _ in range(3):
            loosened = {"approvalPolicy": draw.choice(policies), "sandboxPolicy": draw.choice(sandboxes)}
            with_turn = draw.random() < 0.5
            if not with_turn:
                await flint.answer("thread/settings/update", threadId=thread_id, **loosened)
            if draw.random() < 0.3:
                thread_id = (await flint.call("thread/fork", threadId=thread_id))["thread"]["id"]
            model.add(*replies([certain(draw)]))
            said = [{"type": "text", "text": "go"}]
            await flint.call("turn/start", threadId=thread_id, input=said, **(loosened if with_turn else {}))
            await agree_to_all(flint, draw)


async def agree_to_all(flint: Talk, draw: random.Random) -> None:
    while True:
        message = await flint.until(lambda one: "method" in one and ("id" in one or one["method"] == "turn/completed"))
        if message["method"] == "turn/completed":
            return
        word = draw.choice(("accept", "acceptForSession", "acceptForProject"))
        await flint.say({"id": message["id"], "result": {"decision": word}})


async def acp_client(draw: random.Random, opened: Engine, model: TryingModel, workspace: Path, version: int) -> None:
    """An editor of ACP: modes, options, and always the widest answer."""
    async with anyio.create_task_group() as tasks:
        client = await Desk(opened, tasks, workspace, version).client(
            answer=draw.choice(("allow_once", "allow_always"))
        )
        session = await client.new(workspace)
        for _ in range(3):
            mode = draw.choice(POLICIES)
            if version == 1 and draw.random() < 0.5:
                await client.call("session/set_mode", sessionId=session, modeId=mode)
            else:
                await client.call("session/set_config_option", sessionId=session, configId="mode", value=mode)
            model.add(*replies([certain(draw)]))
            await client.turn(session, "go")
        tasks.cancel_scope.cancel()


async def overrides_client(draw: random.Random, opened: Engine, model: TryingModel, workspace: Path) -> None:
    """Every other protocol ends in these commands: settings that replace rules, modes and sandboxes."""

    def loosened() -> Overrides:
        rules = draw.choice(((), *((rule,) for rule in ALLOWS), None))
        sandbox = draw.choice((*SANDBOXES, None))
        roots = draw.choice((None, ("/",), (str(workspace / "secrets"),)))
        return Overrides(
            approval_policy=draw.choice((*POLICIES, None)),
            sandbox=sandbox,
            rules=rules,
            workspace_roots=roots,
            agent=draw.choice((None, "code")),
        )

    thread = await opened.execute(CreateThread(overrides=loosened()))
    for _ in range(3):
        assert isinstance(thread, ThreadState)
        start = None
        match draw.choice(("change", "turn", "fork", "resume")):
            case "change":
                await opened.execute(ChangeSettings(thread_id=thread.id, overrides=loosened()))
            case "turn":
                start = StartTurn(thread_id=thread.id, content=(TextInput(text="go"),), overrides=loosened())
            case "fork":
                thread = await opened.execute(ForkThread(thread_id=thread.id, overrides=loosened()))
                assert isinstance(thread, ThreadState)
            case _:
                await opened.execute(ResumeThread(thread_id=thread.id, overrides=loosened()))
        model.add(*replies([certain(draw)]))
        await one_turn(opened, thread.id, draw.choice(("once", "always")), command=start)


CLIENTS: dict[str, Client] = {
    "flint": lambda *given: flint_client(*given, name="test"),
    "codex app server": lambda *given: flint_client(*given, name="codex-some-editor"),
    "acp 1": lambda *given: acp_client(*given, version=1),
    "acp 2": lambda *given: acp_client(*given, version=2),
    "any overrides": overrides_client,
}


async def client_story(draw: random.Random, folder: Path, client: str = "") -> None:
    """A client that loosens what it can and says yes to everything, over its own protocol."""
    workspace, model = make_world(folder), TryingModel()
    client = client or draw.choice(sorted(CLIENTS))
    rules = [*DENIES, *draw.sample(ALLOWS, 2)]
    draw.shuffle(rules)
    async with house(workspace, model, rules) as opened:
        await CLIENTS[client](draw, opened, model, workspace)
    tried = [request.messages[-1] for request in model.requests]
    assert len(tried) >= 6, (client, "every turn was run")
    assert_nothing_denied_happened(workspace, model, (client, tried))


# -- a rule that comes while a question is open


async def restart_story(draw: random.Random, folder: Path) -> None:
    """The process stops in the middle of a question. Before the next one starts, a rule denies what was asked about."""
    workspace, model = make_world(folder), TryingModel()
    action = draw.choice((shell(command=draw.choice(TOUCHES)), ("patch", {"patch": PATCH})))
    given = Overrides(approval_policy="always", sandbox=draw.choice(SANDBOXES), after_crash="go_on")
    model.add([call(action[0], **action[1])])
    async with house(workspace, model, (), leaves_turns=True) as opened:
        thread = await opened.execute(CreateThread(overrides=given))
        assert isinstance(thread, ThreadState)
        watcher = await opened.watch(thread.id)
        await opened.execute(StartTurn(thread_id=thread.id, content=(TextInput(text="go"),)))
        with anyio.fail_after(60):
            await until(watcher, lambda event: isinstance(event, ApprovalRequested))
    assert not (workspace / "marker").exists()
    async with house(workspace, model, DENIES) as opened:
        await opened.execute(ResumeThread(thread_id=thread.id))
        watcher = await opened.watch(thread.id)
        with anyio.fail_after(60):
            while (state := opened.loaded(thread.id)) is not None and state.running is not None:
                for approval in state.approvals:
                    decision: Decision = draw.choice(("once", "always"))
                    await opened.execute(ResolveApproval(approval_id=approval.id, decision=decision))
                await watcher.next()
    assert_nothing_denied_happened(workspace, model, action)


DENY_STORIES: dict[str, Callable[[random.Random, Path], Awaitable[None]]] = {
    "mcp": mcp_story,
    "acp agent": acp_story,
    "codex": codex_story,
    "client": client_story,
    "restart": restart_story,
}


@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("path", ["client", "restart"])
async def test_no_path_leads_past_a_deny_rule(path: str, tmp_path: Path) -> None:
    await DENY_STORIES[path](random.Random(1), tmp_path)


@pytest.mark.slow
@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("seed", range(200))
async def test_no_path_leads_past_a_deny_rule_in_two_hundred_stories(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    await DENY_STORIES[draw.choice(sorted(DENY_STORIES))](draw, tmp_path)


# -- plan mode


async def plan_mcp_story(draw: random.Random, folder: Path) -> None:
    """Servers and clients are told nothing in plan mode, whatever was allowed before and by rules."""
    workspace, model = make_world(folder), TryingModel()
    rules = (*ALLOWS, Rule(action="allow", mcp="hands"))
    tool = {"type": "function", "name": "act", "description": "Acts", "inputSchema": {"type": "object"}}
    policy = draw.choice(POLICIES)
    async with house(workspace, model, rules, more=MCP) as opened, talking(opened, "test") as flint:
        thread_id = await flint.start(cwd=str(workspace), approvalPolicy=policy, dynamicTools=[tool])
        model.add(*replies([("mcp__hands__run", {"command": "true"})]))
        await one_turn(opened, ThreadId(thread_id), "always")
        if draw.random() < 0.5:
            await flint.call("config/set", threadId=thread_id, id=AGENT_OPTION, value="plan")
        else:
            changed = Overrides(agent="plan", sandbox=draw.choice((None, DangerFullAccess())))
            await opened.execute(ChangeSettings(thread_id=ThreadId(thread_id), overrides=changed))
        before = snapshot(workspace)
        for action in draw.sample(
            (
                ("mcp__hands__run", {"command": "echo x > src/a.txt"}),
                ("mcp__hands__wipe", {}),
                ("mcp__hands__write", {"path": "new.txt"}),
                ("act", {}),
            ),
            3,
        ):
            model.add(*replies([action]))
            await one_turn(opened, ThreadId(thread_id), draw.choice(("once", "always")))
        await flint.call("thread/read", threadId=thread_id)
        assert snapshot(workspace) == before, policy
        assert "item/tool/call" not in flint.methods(), policy


PLAN_STORIES: dict[str, Callable[[random.Random, Path], Awaitable[None]]] = {
    "servers and clients": plan_mcp_story,
    "acp agent": lambda draw, folder: acp_story(draw, folder, plan=True),
}


@pytest.mark.slow
@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("path", PLAN_STORIES)
async def test_no_path_leads_past_plan_mode(path: str, tmp_path: Path) -> None:
    await PLAN_STORIES[path](random.Random(2), tmp_path)


@pytest.mark.slow
@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("seed", range(100))
async def test_no_path_leads_past_plan_mode_in_a_hundred_stories(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    await PLAN_STORIES[draw.choice(sorted(PLAN_STORIES))](draw, tmp_path)
