"""No path leads past a deny rule, and none past plan mode: the world is looked at, not our own verdicts.

`ACTIONS` and `COMMANDS` list every way in which something can happen. A tool or a command that is in no list fails a
test here, so that whoever adds one says what holds it.
"""

import os
import random
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import anyio
import anyio.abc
import pytest

from hames.clock_and_ids import SystemClock
from hames.domain import commands
from hames.domain.commands import (
    ChangeSettings,
    Command,
    CompactThread,
    CreateThread,
    ForkThread,
    ResumeThread,
)
from hames.domain.ids import ThreadId, TurnId
from hames.domain.options import Overrides
from hames.domain.policy import ReadOnly
from hames.domain.rules import Rule
from hames.domain.state import ThreadState
from hames.ports import Place
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.testing.fakes.model import say
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.registry import BuiltinTools
from trust_world import (
    ALLOWS,
    DENIES,
    POLICIES,
    SANDBOXES,
    Action,
    TryingModel,
    assert_nothing_denied_happened,
    house,
    in_thread,
    make_world,
    one_turn,
    replies,
    shell,
    snapshot,
)

HIDING = (
    "{}",
    "true; {}",
    "ls | {}",
    "echo $({})",
    "cat <({})",
    "f() {{ {}; }}; f",
    "env {}",
    "nice -n 3 timeout 5 stdbuf -oL {}",
    "command {}",
    "exec {}",
    "xargs {} < src/a.txt",
    "find src -name a.txt -exec {} \\;",
    "time -p {}",
    "coproc X {{ {}; }}",
    "echo # it's \\\n{}",
    "cat <<'E'\nfoo\\\nE\n{}",
    'cat <<"E F"\nx\nE F\n{}',
    "case a in a) {};; esac",
    "echo $(case a in a) {};; esac)",
    "for ((i = 0; i < 1; i++)) do {}; done",
    "echo ${{x:-'}}'}}; {}; echo 'a'",
    "bash <<E\n{}\nE",
    "cd src/.. && {}",
    "cp $(command -v touch) t 2>&1; {}",
)
QUOTING = ("bash -c {}", "env -S {}", "eval {}", "sh <<< {}", "python3 -c 'import os, sys; os.system(sys.argv[1])' {}")
SPELLINGS = (
    "touch marker",
    "\\touch marker",
    "t'ou'ch marker",
    "to\\uch marker",
    "x=touch; $x marker",
    "/usr/bin/touch marker",
)


def hidden_touch(draw: random.Random) -> str:
    """`touch marker`, in a way that a reader of shell may overlook."""
    command = draw.choice(SPELLINGS)
    for _ in range(draw.randrange(3)):
        if draw.random() < 0.4:
            command = draw.choice(QUOTING).format(shlex.quote(command))
        else:
            wrapper = draw.choice(HIDING)
            if not ("'" in wrapper and "'" in command):
                command = wrapper.format(command)
    return command


READS = (
    "cat secrets/key.txt",
    "cat src/../secrets/key.txt",
    "cat link",
    "cat sec*/k*",
    "cd secrets; cat key.txt",
    "cat /proc/self/root$PWD/secrets/key.txt",
    "cat /proc/self/cwd/secrets/key.txt",
    "ln secrets/key.txt b; cat b",
    "ln -s secrets s; cat s/key.txt",
    "cp -r secrets s2; cat s2/*",
    "mv secrets s3; cat s3/*",
    "tar cf - . | strings",
    "git grep --no-index canary",
    "python3 -c \"print(open('sec' + 'rets/key.txt').read())\"",
    "python3 -c \"import os; os.system('cat s*/k*')\"",
    "busybox cat secrets/key.txt || cat ./secrets//key.txt",
    "while read -r line; do echo $line; done < secrets/key.txt",
    "x=$(<secrets/key.txt); echo $x",
    "cat<<<$(cat secrets/key.txt)",
    "exec 3<secrets/key.txt; cat <&3",
    "dd if=secrets/key.txt",
)
WRITES = (
    "echo changed > uv.lock",
    "n=uv; echo changed > $n.lock",
    "rm -f uv.loc?",
    "mv uv.lock x",
    "python3 -c \"open('uv.' + 'lock', 'w')\"",
    "ln uv.lock x; echo changed > x",
    "ln -s uv.lock y; echo changed > y",
    "sed -i s/locked/changed/ uv.lock",
    "truncate -s0 ./uv.lock",
    "cp /etc/hostname uv.lock",
    "echo changed | tee uv.lock",
    "exec 3>uv.lock; echo changed >&3",
    "git init -q . ; git checkout -f HEAD -- uv.lock; echo changed >> uv.lock",
    "chmod 777 uv.lock; echo changed > uv.lock",
    "echo changed > /proc/self/cwd/uv.lock",
)


ACTIONS: dict[str, Callable[[random.Random], Sequence[Action]]] = {
    "shell": lambda draw: [
        shell(
            command=draw.choice((hidden_touch(draw), *READS, *WRITES)),
            unsandboxed=draw.random() < 0.2,
            justification="w",
        )
    ],
    "process": lambda draw: [
        shell(command="bash", background=True),
        (
            "process",
            {"action": "write", "process": 1, "input": f"{hidden_touch(draw)}\n{draw.choice((*READS, *WRITES))}\n"},
        ),
    ],
    "read": lambda draw: [("read", {"path": draw.choice(("secrets/key.txt", "link", "src/../secrets/key.txt"))})],
    "write": lambda draw: [
        ("write", {"path": draw.choice(("uv.lock", "./uv.lock", "src/../uv.lock")), "content": "changed"})
    ],
    "edit": lambda draw: [
        ("read", {"path": "uv.lock"}),
        ("edit", {"path": draw.choice(("uv.lock", "src/../uv.lock")), "old_text": "locked", "new_text": "changed"}),
    ],
    "multi_edit": lambda _: [
        ("read", {"path": "uv.lock"}),
        ("multi_edit", {"path": "uv.lock", "edits": [{"old_text": "locked", "new_text": "changed"}]}),
    ],
    "patch": lambda draw: [
        (
            "patch",
            {
                "patch": draw.choice(
                    (
                        "*** Begin Patch\n*** Update File: uv.lock\n@@\n-locked\n+changed\n*** End Patch",
                        "*** Begin Patch\n*** Delete File: uv.lock\n*** End Patch",
                        "--- a/uv.lock\n+++ b/uv.lock\n@@ -1 +1 @@\n-locked\n+changed\n",
                    )
                )
            },
        )
    ],
    "grep": lambda draw: [
        ("grep", {"pattern": "canary", "path": draw.choice((".", "secrets", "secrets/key.txt", "link"))})
    ],
    "glob": lambda _: [("glob", {"pattern": "**/*.txt"})],
    "list": lambda draw: [("list", {"path": draw.choice((".", "secrets")), "depth": 3})],
    "plan": lambda _: [("plan", {"entries": [{"step": "look", "status": "pending"}]})],
    "artifact": lambda _: [("artifact", {"title": "a", "content": "b"})],
    "web_fetch": lambda draw: [("web_fetch", {"url": draw.choice(("http://denied.test/", "http://DENIED.test./x"))})],
    "ask_user": lambda _: [("ask_user", {"questions": [{"question": "May I?", "options": ["yes", "no"]}]})],
}
"""For each tool: calls that would do what the rules deny."""

COMMANDS: dict[str, str] = {
    "CreateThread": "moves",
    "ResumeThread": "moves",
    "StartTurn": "moves",
    "ForkThread": "moves",
    "CompactThread": "moves",
    "ChangeSettings": "moves",
    "ResolveApproval": "moves",
    "SubmitPrompt": "a turn, as StartTurn; budgets: tests/unit/test_budgets.py",
    "SteerTurn": "words for a running turn; budgets: tests/unit/test_budgets.py",
    "StartReview": "a turn that reads: plan and review are held alike",
    "AddHistory": "words; what another program ran is never run again",
    "UndoTurn": "a person's own: files as they were; tests/integration/test_undo.py",
    "FinishWorktree": "a person's own, with a role; tests/integration/test_worktrees.py",
    "RunProgram": "a client's own program, with a role, in the sandbox that it names",
    "DropPrompt": "changes no file",
    "InterruptTurn": "changes no file",
    "ArchiveThread": "changes no file of the workspace",
    "RenameThread": "changes no file of the workspace",
    "DeleteThread": "changes no file of the workspace",
    "ListThreads": "reads",
    "ReadThread": "reads",
    "ListServers": "reads, and starts the servers that the user configured",
    "ListProcesses": "reads, or ends a process",
    "ReadContext": "reads",
    "ListWorktrees": "reads",
}
"""Every command, and what holds it."""


def test_every_command_is_in_the_list() -> None:
    assert {one.__name__ for one in get_args(Command)} == set(COMMANDS)
    assert all(hasattr(commands, name) for name in COMMANDS)


async def test_every_tool_is_in_the_list(tmp_path: Path) -> None:
    sandbox = LocalSandbox(SandboxSettings(), environ=dict(os.environ))
    place = Place(
        files=LocalWorkspace(),
        thread_id=ThreadId(""),
        turn_id=TurnId(""),
        workspace=str(tmp_path),
        cwd=str(tmp_path),
        sandbox=ReadOnly(),
    )

    async def report(_: object) -> None: ...

    async with BuiltinTools(sandbox, SystemClock()).open(place, report) as tools:  # type: ignore[arg-type]
        assert {tool.spec.name for tool in tools} == set(ACTIONS)


# -- deny rules


async def deny_story(draw: random.Random, folder: Path) -> None:
    """A thread with its rules in a random place and order, through random moves, in which the model tries it all."""
    workspace = make_world(folder)
    model = TryingModel()
    everything = [*DENIES, *draw.sample(ALLOWS, draw.randrange(3))]
    draw.shuffle(everything)
    where = draw.choice(("file", "thread", "changed", "both"))
    filed = everything if where in ("file", "both") else []
    threaded = in_thread(everything, workspace) if where in ("thread", "both") else ()
    policy, sandbox = draw.choice(POLICIES), draw.choice(SANDBOXES)
    told: list[object] = [where, policy, type(sandbox).__name__, [rule.action for rule in everything]]
    overrides = Overrides(approval_policy=policy, sandbox=sandbox, rules=threaded)
    async with house(workspace, model, filed) as engine:
        thread = await engine.execute(CreateThread(overrides=overrides))
        assert isinstance(thread, ThreadState)
        thread_id = thread.id
        if where == "changed":  # what was allowed for good before the rule was there
            grant = shell(command="touch granted; cat src/a.txt")
            model.add(*replies([grant]))
            await one_turn(engine, thread_id, "always")
            changed = Overrides(rules=in_thread(everything, workspace))
            await engine.execute(ChangeSettings(thread_id=thread_id, overrides=changed))
        for number in range(3):
            actions = ACTIONS[draw.choice(sorted(ACTIONS))](draw) if number else [shell(command=hidden_touch(draw))]
            move = draw.choice(("none", "fork", "resume", "compact"))
            told += [move, actions]
            if move == "fork":
                forked = await engine.execute(ForkThread(thread_id=thread_id))
                assert isinstance(forked, ThreadState)
                thread_id = forked.id
            elif move == "resume":
                await engine.execute(ResumeThread(thread_id=thread_id))
            elif move == "compact" and where != "changed":
                model.add([say("a summary")])
                await one_turn(engine, thread_id, "reject", command=CompactThread(thread_id=thread_id))
            model.add(*replies(actions))
            await one_turn(engine, thread_id, "reject")
            assert_nothing_denied_happened(workspace, model, told)
        if where == "changed":
            model.add(*replies([shell(command="touch granted; cat src/a.txt")]))
            (workspace / "granted").unlink(missing_ok=True)
            await one_turn(engine, thread_id, "reject")
            assert not (workspace / "granted").exists(), told
    # Another process goes on with the same thread.
    async with house(workspace, model, filed) as engine:
        await engine.execute(ResumeThread(thread_id=thread_id))
        model.add(*replies(ACTIONS["shell"](draw)))
        await one_turn(engine, thread_id, "reject")
    assert_nothing_denied_happened(workspace, model, told)


@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_denied_happens(seed: int, tmp_path: Path) -> None:
    await deny_story(random.Random(seed), tmp_path)


@pytest.mark.slow
@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("seed", range(100, 300))
async def test_nothing_denied_happens_in_two_hundred_stories(seed: int, tmp_path: Path) -> None:
    await deny_story(random.Random(seed), tmp_path)


# -- plan mode


PLAN_ACTIONS: tuple[Action, ...] = (
    shell(command="touch marker"),
    shell(command="touch marker", unsandboxed=True, justification="I must"),
    shell(command="touch ../plan-marker; echo x > src/a.txt; rm -rf secrets"),
    shell(command="python3 -c \"open('marker', 'w')\" || git init -q ."),
    shell(command="(sleep 3; touch marker) & disown; setsid sh -c 'sleep 2; touch marker' &"),
    shell(command="sleep 600", background=True),
    shell(command="bash", terminal=True),
    shell(command="curl -s http://127.0.0.1:{port}/ || exec 3<>/dev/tcp/127.0.0.1/{port}"),
    shell(command="curl -s http://127.0.0.1:{port}/", unsandboxed=True, justification="I must"),
    ("process", {"action": "write", "process": 1, "input": "touch marker\n"}),
    ("process", {"action": "signal", "process": 1, "signal": "USR1"}),
    ("process", {"action": "signal", "process": 1, "signal": "TERM"}),
    ("process", {"action": "resize", "process": 1, "rows": 10, "columns": 10}),
    ("write", {"path": "new.txt", "content": "x"}),
    ("edit", {"path": "src/a.txt", "old_text": "text", "new_text": "x"}),
    ("multi_edit", {"path": "src/a.txt", "edits": [{"old_text": "text", "new_text": "x"}]}),
    ("patch", {"patch": "*** Begin Patch\n*** Add File: new.txt\n+x\n*** End Patch"}),
    ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: uv.lock\n*** End Patch"}),
    ("web_fetch", {"url": "http://127.0.0.1:{port}/"}),
    ("list", {"path": "."}),
    ("plan", {"entries": [{"step": "look", "status": "pending"}]}),
    ("artifact", {"title": "a", "content": "b"}),
    ("grep", {"pattern": "x"}),
    ("glob", {"pattern": "*"}),
    ("read", {"path": "src/a.txt"}),
    ("ask_user", {"questions": [{"question": "May I?", "options": ["yes", "no"]}]}),
)
TRAPS = "trap 'touch marker' USR1 TERM HUP WINCH; while read -r line; do eval \"$line\"; done"
"""A process of the time before plan mode that would do what it is told."""


def test_plan_mode_is_tried_with_every_tool() -> None:
    assert set(ACTIONS) <= {name for name, _ in PLAN_ACTIONS}


def at_port(action: Action, port: int) -> Action:
    name, arguments = action
    return name, {
        key: value.replace("{port}", str(port)) if isinstance(value, str) else value for key, value in arguments.items()
    }


async def plan_story(draw: random.Random, folder: Path, *, tries: int = 7) -> None:
    """Plan mode, with everything allowed that can be allowed, and a person who says yes to every question."""
    workspace, model = make_world(folder), TryingModel()
    policy, sandbox = draw.choice(POLICIES), draw.choice(SANDBOXES)
    before_plan = draw.random() < 0.7
    story = [policy, type(sandbox).__name__, before_plan]
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    reached: list[object] = []

    async def note(stream: anyio.abc.SocketStream) -> None:
        reached.append(stream)
        await stream.aclose()

    async with anyio.create_task_group() as tasks, listener, house(workspace, model, ALLOWS) as engine:
        tasks.start_soon(listener.serve, note)
        rules = tuple(Rule(action="allow", command=f"{name} *", outside=True) for name in ("touch", "curl", "python3"))
        overrides = Overrides(approval_policy=policy, sandbox=sandbox, rules=rules)
        thread = await engine.execute(CreateThread(overrides=overrides))
        assert isinstance(thread, ThreadState)
        if before_plan:
            model.add(*replies([shell(command=TRAPS, background=True), shell(command="true; touch marker")]))
            await one_turn(engine, thread.id, "always")
            (workspace / "marker").unlink(missing_ok=True)
        await engine.execute(ChangeSettings(thread_id=thread.id, overrides=Overrides(agent="plan")))
        before = snapshot(workspace)
        actions = [at_port(action, port) for action in draw.sample(PLAN_ACTIONS, tries)]
        for action in actions:  # one for each turn: a call that fails ends none of the others
            model.add(*replies([action]))
            await one_turn(engine, thread.id, draw.choice(("once", "always")))
        assert snapshot(workspace) == before, (story, actions)
        assert not reached, (story, actions)
        tasks.cancel_scope.cancel()
    assert not (workspace.parent / "plan-marker").exists(), (story, actions)
    assert not running_in(workspace), (story, actions)


def running_in(workspace: Path) -> list[str]:
    """Processes that work in a directory, by their command lines."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(workspace):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("seed", range(2))
async def test_plan_mode_changes_nothing(seed: int, tmp_path: Path) -> None:
    await plan_story(random.Random(seed), tmp_path, tries=5)


@pytest.mark.slow
@pytest.mark.needs("bwrap", "rg")
@pytest.mark.parametrize("seed", range(100, 200))
async def test_plan_mode_changes_nothing_in_a_hundred_stories(seed: int, tmp_path: Path) -> None:
    await plan_story(random.Random(seed), tmp_path)
