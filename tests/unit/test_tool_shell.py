"""The shell tool: what the model, the watchers and the processes see."""

import errno
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hames.domain.approvals import RunCommand
from hames.domain.errors import SandboxUnavailable, StorageFailed
from hames.domain.items import CommandExecution, Stream
from hames.domain.policy import DangerFullAccess, ReadOnly, WorkspaceWrite
from hames.ports import ToolFailed
from hames.tools.registry import ToolLimits
from hames.tools.shell import ShellLimits
from toolbench import OpenSandbox, workshop

SMALL = ToolLimits(shell=ShellLimits(kept_bytes=2000, told_bytes=400, default_seconds=20, max_seconds=30))


async def test_a_command_is_run_and_its_output_and_exit_code_are_read(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        done = await shop.do("shell", command="echo out; echo err >&2; exit 3")
    assert (done.told, done.text, done.failed) == ("out\nerr\n", "out\nerr\n[exit code 3]", True)
    assert isinstance(done.item, CommandExecution)
    assert (done.item.status, done.item.exit_code, done.item.command) == (
        "failed",
        3,
        "echo out; echo err >&2; exit 3",
    )
    assert done.item.duration_ms is not None


async def test_success_is_no_failure(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        done = await shop.do("shell", command="true")
    assert (done.told, done.text, done.failed) == ("", "(no output)\n[exit code 0]", False)
    assert done.item and done.item.status == "completed"


async def test_what_is_shown_is_what_is_run(tmp_path: Path) -> None:
    command = "echo '  two  spaces'\n# and \"quotes\" $HOME\necho é"
    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("shell", command=command)
        assert work.intent == RunCommand(command=command, cwd=str(tmp_path / "w"))
        done = await shop.run(work)
        [launch] = shop.sandbox.launches
    assert launch.argv == ("/bin/bash", "--noprofile", "--norc", "-c", command)
    assert launch.cwd == launch.workspace == str(tmp_path / "w")
    assert done.told == "  two  spaces\né\n"


async def test_the_policy_of_the_run_reaches_the_sandbox(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        await shop.run(await shop.prepare("shell", command="true"), ReadOnly())
        assert shop.sandbox.launches[-1].policy == ReadOnly()


async def test_leaving_the_sandbox_is_asked_for_with_a_reason(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        with pytest.raises(ToolFailed, match="justification"):
            await shop.prepare("shell", command="true", unsandboxed=True)
        work = await shop.prepare("shell", command="true", unsandboxed=True, justification="needs the network")
    assert work.intent == RunCommand(command="true", cwd=str(tmp_path / "w"), unsandboxed=True, why="needs the network")


async def test_a_failure_that_looks_like_the_sandbox_earns_a_hint(tmp_path: Path) -> None:
    command = "echo 'touch: cannot touch /x: Read-only file system'; exit 1"
    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("shell", command=command)
        assert "unsandboxed" in (await shop.run(work, WorkspaceWrite())).text
        work = await shop.prepare("shell", command=command)
        assert "unsandboxed" not in (await shop.run(work, DangerFullAccess())).text
        assert "unsandboxed" not in (await shop.do("shell", command="echo no; exit 1")).text


async def test_long_output_is_kept_at_both_ends_and_what_was_told_is_all_of_it(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w", limits=SMALL) as shop:
        done = await shop.do("shell", command="seq 1 10000")
    assert done.told.startswith("1\n2\n3\n")
    assert done.told.endswith("\n9999\n10000\n")
    assert "bytes omitted …]" in done.told
    assert len(done.told) < 2100
    assert done.text.startswith("1\n2\n")
    assert "10000\n[exit code 0]\n[the output is 48,894 bytes long; all of it can be read with `read`: " in done.text
    assert len(done.text) < 700


async def test_output_is_told_while_the_command_runs(tmp_path: Path) -> None:
    heard = anyio.Event()

    async def tell(text: str, stream: Stream = "output") -> None:
        if "started" in text:
            heard.set()
            (tmp_path / "w/go").touch()

    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("shell", command="echo started; until [ -e go ]; do sleep 0.01; done; echo ended")
        with anyio.fail_after(60):
            item = await work.run(tell, shop.place.sandbox)
    assert heard.is_set()
    assert item.result and item.result.text == "started\nended\n[exit code 0]"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (r"printf '\xff\xfe\x00A'", "\ufffd\ufffd\0A"),
        (r"printf '\xc3'; sleep 0.05; printf '\xa9'", "é"),
        (r"printf '\xed\xa0\x80'", "\ufffd\ufffd\ufffd"),
        (r"printf '\e[31mred\e[0m'", "\x1b[31mred\x1b[0m"),
    ],
    ids=["binary", "a character in two pieces", "a lone surrogate", "colours are kept"],
)
async def test_any_bytes_become_text(tmp_path: Path, command: str, told: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        done = await shop.do("shell", command=command)
    assert done.told == told
    assert "\0" not in done.text
    done.text.encode()


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("kill -TERM $$", "[killed by SIGTERM]"),
        ("sh -c 'kill -KILL $$'; exit $?", "[exit code 137: a program was killed by SIGKILL]"),
        ("exit 255", "[exit code 255]"),
        ("no-such-program", "[exit code 127]"),
        ("touch x; ./x", "[exit code 126]"),
    ],
)
async def test_how_it_ended_is_said(tmp_path: Path, command: str, fact: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        done = await shop.do("shell", command=command)
    assert done.failed
    assert done.text.split("\n", 1)[-1].startswith(fact) or fact in done.text


async def test_stdin_is_empty(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        with anyio.fail_after(60):
            done = await shop.do("shell", command="cat; read x || echo nothing")
    assert done.told == "nothing\n"


async def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    command = "echo begun; trap '' TERM; (sleep 60; touch late) & echo $! >child; wait"
    async with workshop(tmp_path / "w") as shop:
        with anyio.fail_after(60):
            done = await shop.do("shell", command=command, timeout_seconds=2)
    assert done.text == "begun\n[killed: it ran longer than 2 s]"
    assert done.failed
    assert not _alive(tmp_path / "w/child")


async def test_a_command_that_is_stopped_is_ended_with_its_children_before_anything_else(tmp_path: Path) -> None:
    told: list[str] = []

    async def tell(text: str, stream: Stream = "output") -> None:
        told.append(text)

    async with workshop(tmp_path / "w", limits=SMALL) as shop:
        work = await shop.prepare("shell", command="seq 1 2000; sleep 60 & echo $! >child; echo last words; wait")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def stop() -> None:
                    while b"last words" not in b"".join(work._kept._tail):  # type: ignore[attr-defined]
                        await anyio.sleep(0.01)
                    assert _alive(tmp_path / "w/child")
                    tasks.cancel_scope.cancel()

                tasks.start_soon(stop)
                await work.run(tell, shop.place.sandbox)
                raise AssertionError("it was not stopped")
    assert not _alive(tmp_path / "w/child")
    assert "".join(told).endswith("last words\n")


async def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        with anyio.fail_after(60):
            done = await shop.do("shell", command="sleep 60 & echo $! >child; echo done")
    assert done.told == "done\n"
    assert not _alive(tmp_path / "w/child")


def _alive(file: Path) -> bool:
    text = file.read_text().strip() if file.exists() else ""
    status = Path(f"/proc/{text}/status") if text else Path("/nowhere")
    try:
        return bool(text) and "State:\tZ" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_the_directory_can_be_chosen_inside_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "w/sub").mkdir(parents=True)
    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("shell", command="pwd", cwd="sub")
        assert (await shop.run(work)).told == f"{tmp_path}/w/sub\n"
        assert shop.sandbox.launches[-1].workspace == str(tmp_path / "w")
        for cwd in ("/", "..", "sub/../..", "nowhere", "../w-evil", "~"):
            done = await shop.do("shell", command="pwd", cwd=cwd)
            assert done.failed, cwd
        (tmp_path / "w/out").symlink_to("/")
        assert (await shop.do("shell", command="pwd", cwd="out")).failed
        assert len(shop.sandbox.launches) == 1


@pytest.mark.parametrize(
    ("command", "words"), [("a\0b", "NUL"), ("\ud800", "surrogate"), ("x" * 200_000, "longer than")]
)
async def test_a_command_that_cannot_be_run_is_refused_before(tmp_path: Path, command: str, words: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        done = await shop.do("shell", command=command)
        assert done.failed
        assert words in done.text
        assert not shop.sandbox.launches


@pytest.mark.parametrize(
    "failing",
    [
        SandboxUnavailable("no bubblewrap here"),
        OSError(errno.EAGAIN, "Resource temporarily unavailable"),
        ToolFailed("'/gone' is not a directory"),
    ],
)
async def test_a_start_that_fails_is_a_result_the_model_reads(tmp_path: Path, failing: Exception) -> None:
    sandbox = OpenSandbox()
    sandbox.failing = failing
    async with workshop(tmp_path / "w", sandbox=sandbox) as shop:
        done = await shop.do("shell", command="true")
        assert done.failed
        assert str(failing) in done.text
        assert isinstance(done.item, CommandExecution)
        assert (done.item.status, done.item.exit_code) == ("failed", None)
        sandbox.failing = None
        assert not (await shop.do("shell", command="true")).failed


async def test_a_watcher_that_fails_ends_the_command_and_is_heard_as_it_is(tmp_path: Path) -> None:
    async def tell(text: str, stream: Stream = "output") -> None:
        raise StorageFailed("no space left")

    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("shell", command="echo x; sleep 60 & echo $! >child; wait")
        with anyio.fail_after(60), pytest.raises(StorageFailed):
            await work.run(tell, shop.place.sandbox)
    assert not _alive(tmp_path / "w/child")


async def test_a_command_that_deletes_its_own_directory_only_hurts_itself(tmp_path: Path) -> None:
    (tmp_path / "w/sub").mkdir(parents=True)
    async with workshop(tmp_path / "w") as shop:
        assert not (await shop.do("shell", command="rmdir ../sub", cwd="sub")).failed
        assert (await shop.do("shell", command="pwd", cwd="sub")).failed
        assert not (await shop.do("shell", command="pwd")).failed
        shop.place = replace(shop.place, cwd=str(tmp_path / "w/gone"))
        assert "not started" in (await shop.do("shell", command="pwd")).text


async def test_what_the_sandbox_noticed_is_seen_by_people_and_by_the_model(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        shop.sandbox.notes = ("a repository was left in 'x'",)
        done = await shop.do("shell", command="echo out")
    assert done.told == "out\n[a repository was left in 'x']\n"
    assert done.text == "out\n[exit code 0]\n[a repository was left in 'x']"


async def test_the_time_limit_is_bounded(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        await shop.do("shell", command="true")
        assert shop.sandbox.launches[-1].limits.seconds == 120
        assert "at most 600" in (await shop.do("shell", command="true", timeout_seconds=601)).text
        assert "more than 0" in (await shop.do("shell", command="true", timeout_seconds=0)).text
