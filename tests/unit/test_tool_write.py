"""The write tool, and what all tools that change files have in common."""

import stat
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hames.domain.approvals import ChangeFiles, Harmless
from hames.domain.items import FileChange, FileUpdate, Stream
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, WorkspaceWrite
from hames.tools.files.apply_changes import MAX_BYTES
from toolbench import workshop


async def test_a_new_file_is_shown_as_a_diff_and_then_made(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("write", path="a/b.txt", content="one\ntwo")
        diff = "--- /dev/null\n+++ b/a/b.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n"
        update = FileUpdate(path=str(tmp_path / "w/a/b.txt"), kind="add", diff=diff)
        assert work.intent == ChangeFiles(changes=(update,))
        assert not (tmp_path / "w/a").exists()
        done = await shop.run(work)
    assert (done.failed, done.told, done.text) == (False, diff, "Created a/b.txt (2 lines)")
    assert isinstance(done.item, FileChange)
    assert (done.item.status, done.item.changes) == ("completed", (update,))
    assert (tmp_path / "w/a/b.txt").read_bytes() == b"one\ntwo"


async def test_a_replaced_file_keeps_its_mode_its_line_ends_and_its_mark(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f"
        file.write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
        file.chmod(0o750)
        await shop.do("read", path="f")
        done = await shop.do("write", path="f", content="x\ny\n")
        assert file.read_bytes() == b"\xef\xbb\xbfx\r\ny\r\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o750
        assert done.text.split("\n")[0] == "Replaced f (2 lines, a byte order mark, CRLF line ends kept)"
        await shop.do("write", path="f", content="x\r\nz\r\n")
        assert file.read_bytes() == b"\xef\xbb\xbfx\r\nz\r\n"


async def test_a_file_in_utf_16_stays_one(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_bytes("\ufeffold\n".encode("utf-16-be"))
        await shop.do("read", path="f")
        await shop.do("write", path="f", content="néw\n")
        assert (shop.root / "f").read_bytes() == "\ufeffnéw\n".encode("utf-16-be")


async def test_writing_what_is_there_already_asks_nothing_and_changes_nothing(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("same\n")
        before = (shop.root / "f").stat()
        work = await shop.prepare("write", path="f", content="same\n")
        assert work.intent == Harmless()
        done = await shop.run(work, ReadOnly())
        assert not done.failed
        assert "already" in done.text
        after = (shop.root / "f").stat()
        assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


@pytest.mark.parametrize("after", [b"theirs\n", None], ids=["changed", "gone"])
async def test_a_file_that_changed_since_it_was_prepared_is_left_alone(tmp_path: Path, after: bytes | None) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f"
        file.write_text("mine\n")
        await shop.do("read", path="f")
        work = await shop.prepare("write", path="f", content="new\n")
        file.write_bytes(after) if after else file.unlink()
        done = await shop.run(work)
        assert done.failed
        assert "since the change was prepared" in done.text
        assert (file.read_bytes() if file.exists() else None) == after


async def test_a_file_that_appeared_since_it_was_prepared_is_left_alone(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("write", path="f", content="new\n")
        (shop.root / "f").write_text("theirs\n")
        assert (await shop.run(work)).failed
        assert (shop.root / "f").read_text() == "theirs\n"


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f"
        file.write_text("one\n")
        await shop.do("read", path="f")
        file.write_text("somebody else\n")
        done = await shop.do("write", path="f", content="two\n")
        assert (done.failed, file.read_text()) == (True, "somebody else\n")
        assert "changed since you read it" in done.text
        await shop.do("read", path="f")
        assert not (await shop.do("write", path="f", content="two\n")).failed
        assert not (await shop.do("write", path="f", content="three\n")).failed


async def test_a_read_only_run_changes_nothing(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        done = await shop.run(await shop.prepare("write", path="f", content="x"), ReadOnly())
        assert done.failed
        assert "readOnly" in done.text
        assert done.item and done.item.status == "failed"
        assert not (shop.root / "f").exists()
        assert not (await shop.run(await shop.prepare("write", path="f", content="x"), DangerFullAccess())).failed


async def test_a_root_that_the_policy_makes_writable_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "extra/.git").mkdir(parents=True)
    other = str(tmp_path / "extra")
    async with workshop(tmp_path / "w", policy=WorkspaceWrite(writable_roots=(other, f"{other}/.git"))) as shop:
        assert not (await shop.do("write", path=f"{other}/f", content="x")).failed
        assert (tmp_path / "extra/f").read_text() == "x"
        assert (await shop.do("write", path=f"{tmp_path}/f", content="x")).failed
        assert (await shop.do("write", path=f"{other}-evil/f", content="x")).failed
        shop.place = replace(shop.place, sandbox=WorkspaceWrite(writable_roots=(f"{other}/.git",)))
        work = await shop.prepare("write", path=f"{other}/.git/config", content="x")
        assert isinstance(work.intent, ChangeFiles)
        assert work.intent.protected


async def test_a_stop_before_the_change_begins_leaves_nothing(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("write", path="f", content="x")
        with anyio.CancelScope() as scope:

            async def tell(text: str, stream: Stream = "output") -> None:
                scope.cancel()
                await anyio.sleep(0)

            await work.run(tell, shop.place.sandbox)
        assert scope.cancelled_caught
        assert list(shop.root.iterdir()) == []


async def test_what_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert "the limit is" in (await shop.do("write", path="f", content="x" * (MAX_BYTES + 1))).text
        assert "surrogate" in (await shop.do("write", path="f", content="\ud800")).text
        assert "is a directory" in (await shop.do("write", path=".", content="x")).text
        (shop.root / "d").mkdir()
        assert "is a directory" in (await shop.do("write", path="d", content="x")).text
        assert not (shop.root / "f").exists()


async def test_a_file_where_a_directory_should_be_is_said(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "g").write_text("x")
        done = await shop.do("write", path="g/h", content="x")
        assert done.failed
        assert "not a directory" in done.text


@pytest.mark.parametrize("policy", [DangerFullAccess(), ExternalSandbox()])
async def test_without_a_sandbox_file_tools_reach_what_commands_reach(
    tmp_path: Path, policy: DangerFullAccess | ExternalSandbox
) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = str(tmp_path / "elsewhere" / "f")
    async with workshop(tmp_path / "w", policy=policy) as shop:
        assert not (await shop.do("write", path=path, content="one\n")).failed
        assert not (await shop.do("edit", path=path, old_string="one", new_string="two")).failed
        assert "two" in (await shop.do("read", path=path)).text
        assert "f" in (await shop.do("list", path=str(tmp_path / "elsewhere"))).text
        assert not (await shop.do("write", path="../elsewhere/g", content="x\n")).failed
    async with workshop(tmp_path / "w2", policy=ReadOnly()) as shop:
        assert "outside the workspace" in (await shop.do("read", path=path)).text


async def test_a_file_that_was_never_read_is_not_overwritten(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f"
        file.write_text("one\n")
        done = await shop.do("write", path="f", content="two\n")
        assert (done.failed, file.read_text()) == (True, "one\n")
        assert "'f' exists and you have not read it; read it first" in done.text
        file.write_text("")
        assert not (await shop.do("write", path="f", content="two\n")).failed  # nothing is lost


async def test_what_another_hand_added_before_an_edit_is_not_lost_by_a_later_write(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f"
        file.write_text("a\nb\nc\n")
        await shop.do("read", path="f")
        file.write_text("a\nb\nc\ntheirs\n")
        edited = await shop.do("edit", path="f", old_string="b", new_string="B")
        assert not edited.failed
        assert "had changed since you read it" in edited.text
        done = await shop.do("write", path="f", content="a\nB\nC\n")
        assert (done.failed, file.read_text()) == (True, "a\nB\nc\ntheirs\n")
        await shop.do("read", path="f")
        assert not (await shop.do("write", path="f", content="a\nB\nC\ntheirs\n")).failed


async def test_lines_that_were_not_read_are_not_overwritten_after_partial_reads_and_edits(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f"
        file.write_text("".join(f"line {number}\n" for number in range(1, 11)))
        await shop.do("read", path="f", limit=5)
        assert "not read, from line 6" in (await shop.do("write", path="f", content="x\n")).text
        await shop.do("edit", path="f", old_string="line 2\n", new_string="two\nmore\n")
        done = await shop.do("write", path="f", content="x\n")
        assert done.failed
        assert "not read, from line 7" in done.text
        await shop.do("read", path="f", offset=7)
        assert not (await shop.do("write", path="f", content="x\n")).failed


async def test_an_edit_of_an_unread_file_is_not_a_way_to_overwrite_it(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f"
        file.write_text("a\nb\n")
        assert not (await shop.do("edit", path="f", old_string="a", new_string="A")).failed
        assert (await shop.do("write", path="f", content="x\n")).failed
        assert file.read_text() == "A\nb\n"


async def test_a_new_file_that_does_not_parse_is_said(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        done = await shop.do("write", path="f.py", content="def f(:\n    pass\n")
        assert not done.failed
        assert "[syntax error in line 1" in done.text
