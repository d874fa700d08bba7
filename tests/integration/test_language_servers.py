"""What a language server says of an edit, through the real sandbox: ruff's own, and one that misbehaves."""

import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hames.config.language_servers import language_servers
from hames.domain.commands import ResolveApproval
from hames.domain.ids import ThreadId, TurnId
from hames.domain.language_servers import LanguageServerOptions, LanguageServerSettings
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Launch, Place, Process
from hames.sandbox.local import LocalSandbox
from hames.testing.fakes.model import ScriptedModel, call, say
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.language_servers.edit_checks import CheckLimits
from hames.tools.registry import BuiltinTools, ToolLimits
from situated_engine import results, situated_engine
from support import created, question, started, turn_end
from toolbench import Done, OpenSandbox, WallClock, Workshop, unheard

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bwrap")]

SERVER = Path(__file__).with_name("misbehaving_server.py")
AUTO = LanguageServerOptions()
PATIENT = CheckLimits(seconds=50, slow_seconds=50)
SECONDS = 60


class RecordedSandbox:
    """The real one. It remembers what was started."""

    def __init__(self) -> None:
        self._inner = LocalSandbox()
        self.launches: list[Launch] = []
        self.processes: list[Process] = []
        self.started = anyio.Event()

    async def spawn(self, launch: Launch) -> Process:
        process = await self._inner.spawn(launch)
        self.launches.append(launch)
        self.processes.append(process)
        self.started.set()
        return process

    def close(self) -> None:
        self._inner.close()


class Bench(Workshop):
    walls: RecordedSandbox

    async def write(self, content: str, name: str = "a.txt") -> str:
        """What the model reads after it has written a file of which it knows all."""
        await self.do("read", path=name)
        done: Done = await self.do("write", path=name, content=content)
        assert not done.failed, done.text
        return done.text


@asynccontextmanager
async def bench(
    root: Path,
    options: LanguageServerOptions = AUTO,
    *,
    limits: CheckLimits = PATIENT,
    unasked: bool = True,
    policy: SandboxPolicy | None = None,
) -> AsyncGenerator[Bench]:
    root.mkdir(exist_ok=True)
    walls = RecordedSandbox()
    place = Place(
        files=LocalWorkspace(),
        thread_id=ThreadId("ses_1"),
        turn_id=TurnId("turn_1"),
        workspace=str(root),
        cwd=str(root),
        sandbox=policy or WorkspaceWrite(),
        runs_unasked=unasked,
    )
    tools = BuiltinTools(
        walls, WallClock(), limits=ToolLimits(checks=limits), language_servers=options, search_path="/usr/bin:/bin"
    )
    try:
        with anyio.fail_after(SECONDS):
            async with tools.open(place, unheard) as opened:
                one = Bench(root, {tool.spec.name: tool for tool in opened}, OpenSandbox(), place)
                one.walls = walls
                yield one
    finally:
        walls.close()


def misbehaving(root: Path, mode: str, *, named: bool = True) -> LanguageServerOptions:
    """A server for text files that is installed in the workspace."""
    programs = root / "node_modules" / ".bin"
    programs.mkdir(parents=True)
    shutil.copy(SERVER, programs / "server.py")
    (programs / "text-server").write_text(f'#!/bin/sh\nexec /usr/bin/python3 {programs}/server.py "$@"\n')
    (programs / "text-server").chmod(0o755)
    settings = LanguageServerSettings(command=("text-server", mode), extensions=(".txt",))
    return LanguageServerOptions(servers={"text": settings}) if named else AUTO


def install_ruff(root: Path) -> None:
    programs = root / ".venv" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(Path(sys.executable).with_name("ruff"), programs / "ruff")


async def test_only_errors_that_an_edit_brings_are_told(tmp_path: Path) -> None:
    install_ruff(tmp_path)
    (tmp_path / "a.py").write_text("print(there_before)\nx = 1\n")
    async with bench(tmp_path) as work:
        broken = await work.do("edit", path="a.py", old_string="x = 1\n", new_string="x = 1\nprint(new)\n")
        assert "[ruff finds 1 new error:\na.py:3: Undefined name `new`]" in broken.text
        moved = await work.do("edit", path="a.py", old_string="x = 1\n", new_string="x = 1\ny = 2\n")
        assert "ruff" not in moved.text
        again = await work.do("edit", path="a.py", old_string="y = 2\n", new_string="y = new\n")
        assert "a.py:3: Undefined name `new`]" in again.text
        assert "a.py:4: " not in again.text
        created = await work.do("write", path="b.py", content="import os\n\nprint(os.sep, gone)\n")
        assert "b.py:3: Undefined name `gone`]" in created.text
        patched = await work.do(
            "patch",
            patch="--- a/b.py\n+++ b/b.py\n@@ -3 +3 @@\n-print(os.sep, gone)\n+print(os.sep, lost)\n",
        )
        assert "b.py:3: Undefined name `lost`]" in patched.text
        assert len(work.walls.launches) == 1  # one server for all of them


async def test_a_server_runs_read_only_and_without_network_whatever_the_policy(tmp_path: Path) -> None:
    for number, policy in enumerate((WorkspaceWrite(network_access=True), DangerFullAccess())):
        root = tmp_path / str(number)
        async with bench(root, misbehaving(root, "writes"), policy=policy) as work:
            assert "refused: Read-only file system" in await work.write("bad")
            assert [launch.policy for launch in work.walls.launches] == [ReadOnly()]
        assert not (root / "written-by-the-server").exists()


async def test_where_a_command_would_be_asked_about_no_server_is_started(tmp_path: Path) -> None:
    install_ruff(tmp_path)
    async with bench(tmp_path, unasked=False) as work:
        assert "ruff" not in await work.write("print(gone)\n", "a.py")
        assert not work.walls.launches
    for options in (
        LanguageServerOptions(mode="on"),
        LanguageServerOptions(servers={"ruff": LanguageServerSettings()}),
        LanguageServerOptions(trusted=str(tmp_path)),
    ):
        async with bench(tmp_path, options, unasked=False) as work:
            assert "Undefined name" in await work.write("print(gone)\n", "b.py")
        (tmp_path / "b.py").unlink()
    async with bench(tmp_path, LanguageServerOptions(trusted="/elsewhere"), unasked=False) as work:
        await work.write("print(gone)\n", "d.py")
        assert not work.walls.launches
    off = LanguageServerSettings(enabled=False)
    for options in (LanguageServerOptions(mode="off"), LanguageServerOptions(servers={"ruff": off})):
        async with bench(tmp_path, options) as work:
            await work.write("print(gone)\n", "c.py")
            assert not work.walls.launches


async def test_nothing_is_started_where_nothing_is_installed_or_no_server_knows_the_file(tmp_path: Path) -> None:
    async with bench(tmp_path) as work:
        await work.write("print(gone)\n", "a.py")
        await work.write("fn main() {}\n", "a.unknown")
        await work.write("no extension\n", "Makefile")
        assert not work.walls.launches


async def test_a_server_that_hangs_costs_a_moment_and_ends_with_the_thread(tmp_path: Path) -> None:
    options = misbehaving(tmp_path, "hangs")
    async with bench(tmp_path, options, limits=CheckLimits(seconds=0.1, slow_seconds=0.05)) as work:
        for text in ("bad", "worse", "bad again", "bad once more"):
            assert "text" not in (await work.write(text)).replace("a.txt", "")
        await work.walls.started.wait()
        [process] = work.walls.processes
    await process.wait()


async def test_a_server_that_keeps_dying_is_started_three_times(tmp_path: Path) -> None:
    for mode in ("dies", "dies later", "garbage", "huge"):
        root = tmp_path / mode.replace(" ", "")
        async with bench(root, misbehaving(root, mode)) as work:
            for number in range(6):
                await work.write(f"bad {number}")
            assert len(work.walls.launches) == 3, mode


async def test_a_server_that_nobody_needs_is_ended_and_started_again_as_often_as_needed(tmp_path: Path) -> None:
    limits = CheckLimits(seconds=50, slow_seconds=50, idle_seconds=0.01)
    async with bench(tmp_path, misbehaving(tmp_path, "plain"), limits=limits) as work:
        for number in range(5):
            assert f"bad line: bad {number}" in await work.write(f"bad {number}", f"{number}.txt")
            assert len(work.walls.processes) == number + 1
            await work.walls.processes[-1].wait()


async def test_a_server_that_floods_is_ended(tmp_path: Path) -> None:
    async with bench(tmp_path, misbehaving(tmp_path, "floods")) as work:
        assert (await work.write("bad")).startswith("Created a.txt")
        [process] = work.walls.processes
        await process.wait()


async def test_what_a_server_asks_for_is_not_done(tmp_path: Path) -> None:
    async with bench(tmp_path, misbehaving(tmp_path, "asks")) as work:
        told = await work.write("bad")
    assert "applyEdit: {'applied': False}; showDocument: window/showDocument is not supported" in told


async def test_the_words_of_a_server_are_one_printable_line(tmp_path: Path) -> None:
    async with bench(tmp_path, misbehaving(tmp_path, "escapes")) as work:
        assert "a.txt:1: red �[31m and a second line�]" in await work.write("bad")


async def test_warnings_are_not_told(tmp_path: Path) -> None:
    async with bench(tmp_path, misbehaving(tmp_path, "warns")) as work:
        told = await work.write("bad")
    assert "1 new error" in told
    assert "warning" not in told


async def test_a_server_that_names_no_versions_is_waited_for_until_it_pauses(tmp_path: Path) -> None:
    async with bench(tmp_path, misbehaving(tmp_path, "unversioned")) as work:
        assert "a.txt:2: bad line: bad one]" in await work.write("good\nbad one\n")
        assert "finds" not in await work.write("good\n")
        assert "a.txt:1: bad line: bad two]" in await work.write("bad two\n")


async def test_an_answer_that_comes_late_is_told_with_a_later_edit(tmp_path: Path) -> None:
    options = misbehaving(tmp_path, "plain")
    async with bench(tmp_path, options, limits=CheckLimits(seconds=0, slow_seconds=0)) as work:
        told = await work.write("bad one")
        assert "finds" not in told
        for number in range(1_000):  # each write gives the server a little time
            if "finds" in (told := await work.write(f"good {number}", "b.txt")):
                break
    assert "a.txt:1: bad line: bad one]" in told


async def test_many_errors_are_counted_and_the_first_are_told(tmp_path: Path) -> None:
    async with bench(tmp_path, misbehaving(tmp_path, "plain")) as work:
        told = await work.write("\n".join(f"bad {number}" for number in range(700)))
    assert "[text finds 500 new errors:" in told
    assert told.count("bad line") == 10
    assert "… and 490 more]" in told


async def test_a_stop_while_the_server_is_asked_still_says_that_the_file_has_changed(tmp_path: Path) -> None:
    async with bench(tmp_path, misbehaving(tmp_path, "hangs")) as work:
        prepared = await work.prepare("write", path="a.txt", content="bad")
        done: list[Done] = []
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await work.walls.started.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            done.append(await work.run(prepared))
    assert done[0].text == "Created a.txt (1 line)"
    assert (tmp_path / "a.txt").read_text() == "bad"


async def test_the_nearest_project_is_the_root_and_has_a_server_of_its_own(tmp_path: Path) -> None:
    options = misbehaving(tmp_path, "plain")
    for name in ("one", "two"):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "package.json").write_text("{}")
    async with bench(tmp_path, options) as work:
        for name in ("one/src/a.txt", "two/src/a.txt", "one/b.txt", "c.txt"):
            assert "bad line" in await work.write("bad", name)
        assert [launch.cwd for launch in work.walls.launches] == [
            str(tmp_path / "one"),
            str(tmp_path / "two"),
            str(tmp_path),
        ]


@pytest.mark.slow
@pytest.mark.needs("node")
async def test_pyright_tells_of_errors_in_another_file_that_was_edited_before(tmp_path: Path) -> None:
    package = (
        Path(sys.executable).parents[1] / "lib" / f"python3.{sys.version_info.minor}" / "site-packages/pyright/dist"
    )
    if not package.is_dir():
        pytest.skip("pyright has not been downloaded")
    shutil.copytree(package, tmp_path / "node_modules" / "pyright")
    program = tmp_path / "node_modules" / ".bin" / "pyright-langserver"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nexec node "$(dirname "$0")/../pyright/langserver.index.js" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "a.py").write_text("def f(x: int) -> int:\n    return x\n")
    async with bench(tmp_path) as work:
        assert "finds" not in await work.write("from a import f\n\nprint(f(1))\n", "b.py")
        told = (await work.do("edit", path="a.py", old_string="x: int", new_string="x: str")).text
        assert "[pyright finds 2 new errors:" in told
        assert "b.py:3: Argument of type" in told
        assert "a.py:2: Type" in told


async def test_the_model_reads_it_where_commands_run_without_a_question(tmp_path: Path) -> None:
    install_ruff(tmp_path)
    for number, (policy, is_checked) in enumerate((("never", True), ("onRequest", True), ("unlessTrusted", False))):
        model = ScriptedModel([call("write", path=f"{number}.py", content="print(gone)\n")], [say("Done.")])
        patient = ToolLimits(checks=PATIENT)
        async with situated_engine(model, tmp_path, policy=policy, limits=patient, language_servers=AUTO) as engine:
            thread = await created(engine)
            with anyio.fail_after(SECONDS):
                watcher = await engine.watch(thread.id)
                await started(engine, thread.id)
                if policy == "unlessTrusted":
                    asked = await question(watcher)
                    await engine.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
                await turn_end(watcher)
        [told] = results(model.requests[1])
        assert told.startswith("Created")
        assert ("Undefined name `gone`" in told) == is_checked, policy


def test_the_configuration_says_what_is_wrong_with_it() -> None:
    from hames.domain.errors import Misconfigured

    for wrong, words in (
        ("sometimes", "must be one of auto, on, off, or a table of servers"),
        ({"pyright": {"comand": ["x"]}}, "sets 'comand' in 'pyright', which is not a known key"),
        ({"pyright": {"command": "x"}}, "Expected `array`"),
        ({"own": {"command": ["x"]}}, "'own' needs extensions"),
        ({"own": {"command": ["./x"], "extensions": ["x"]}}, "a name or an absolute path"),
    ):
        with pytest.raises(Misconfigured, match="language_servers") as problem:
            language_servers(wrong, "config.toml")
        assert words in str(problem.value)


def test_the_configuration_knows_the_servers_that_are_looked_for() -> None:
    from hames.config import language_servers as settings
    from hames.tools.language_servers.installed import KNOWN

    assert {server.name for server in KNOWN} == settings.KNOWN_NAMES
