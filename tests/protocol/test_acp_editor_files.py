"""`hames acp` in an editor that offers its files: unsaved text is read, changes are told, and nothing depends on it."""

from pathlib import Path
from typing import Any

import pytest

from acp_support import AcpClient, Desk, acp_desk
from hames.domain.policy import WorkspaceWrite
from hames.testing.fakes.model import ScriptedModel, call, say

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


async def editor(desk: Desk, buffers: dict[str, str] | None, offered: dict[str, Any] | None = None) -> AcpClient:
    client = await desk.client(offered=FILES if offered is None else offered)
    client.buffers = buffers
    return client


def told(model: ScriptedModel) -> str:
    return str(model.requests[-1].messages)


def asked(client: AcpClient, method: str) -> list[str]:
    return [one["params"]["path"] for one in client.messages if one.get("method") == method]


async def test_unsaved_text_is_read_changed_and_told_to_the_editor(tmp_path: Path) -> None:
    edit = call("edit", path="a.txt", old_string="unsaved", new_string="changed")
    model = ScriptedModel([call("read", path="a.txt")], [edit], [say("Done.")])
    async with acp_desk(tmp_path, model, 1) as desk:
        file = desk.work / "a.txt"
        file.write_text("saved\n")
        client = await editor(desk, {str(file): "unsaved\nmore\n"})
        session = await client.new(desk.work)
        assert await client.turn(session, "go") == "end_turn"
        assert "unsaved" in told(model)
        assert file.read_text() == "changed\nmore\n"
        assert client.buffers == {str(file): "changed\nmore\n"}
        [diff] = [
            one for one in client.updates("tool_call_update") if one.get("status") == "completed" and "diff" in str(one)
        ]
        assert diff["content"][0]["oldText"] == "unsaved\nmore\n"


async def test_a_new_file_is_told_to_the_editor_after_the_approval_and_not_before(tmp_path: Path) -> None:
    model = ScriptedModel([call("write", path="n.txt", content="new\n")], [say("Done.")])
    async with acp_desk(tmp_path, model, 1, policy="always") as desk:
        client = await editor(desk, {})
        client.answer = None
        session = await client.new(desk.work)
        number = await client.prompt(session, "go")
        [question] = await client.asked()
        assert asked(client, "fs/write_text_file") == []
        await client.select(question, "allow_once")
        assert await client.ended(session, number) == "end_turn"
        assert client.buffers == {str(desk.work / "n.txt"): "new\n"}
        assert (desk.work / "n.txt").read_text() == "new\n"


async def test_a_rejected_change_is_not_told_and_saves_nothing(tmp_path: Path) -> None:
    edit = call("edit", path="a.txt", old_string="unsaved", new_string="changed")
    model = ScriptedModel([call("read", path="a.txt")], [edit], [say("Done.")])
    async with acp_desk(tmp_path, model, 1, policy="always") as desk:
        file = desk.work / "a.txt"
        file.write_text("saved\n")
        client = await editor(desk, {str(file): "unsaved\n"})
        client.answer = "reject_once"
        await client.turn(await client.new(desk.work), "go")
        assert (file.read_text(), client.buffers) == ("saved\n", {str(file): "unsaved\n"})


@pytest.mark.parametrize(
    ("buffers", "offered"),
    [({}, FILES), (None, FILES), ({"*": "x"}, {}), ({"*": "x"}, {"fs": {"readTextFile": "yes"}})],
    ids=["refuses", "silent", "offers nothing", "malformed"],
)
async def test_a_client_that_gives_no_file_is_not_needed(
    tmp_path: Path, buffers: dict[str, str] | None, offered: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hames.stdio.connection.EDITOR_SECONDS", 0.05)
    edit = call("edit", path="a.txt", old_string="saved", new_string="changed")
    model = ScriptedModel([call("read", path="a.txt")], [edit], [say("Done.")])
    async with acp_desk(tmp_path, model, 1) as desk:
        (desk.work / "a.txt").write_text("saved\n")
        client = await editor(desk, buffers, offered)
        assert await client.turn(await client.new(desk.work), "go") == "end_turn"
        assert (desk.work / "a.txt").read_text() == "changed\n"
        if buffers is None:  # it is not waited for again and again
            assert len(asked(client, "fs/read_text_file") + asked(client, "fs/write_text_file")) == 1
        if not offered.get("fs", {}).get("writeTextFile"):
            assert asked(client, "fs/read_text_file") == []


async def test_what_the_editor_shows_keeps_the_form_of_the_file(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call("read", path="a.txt")], [call("edit", path="a.txt", old_string="two", new_string="three")], [say("ok")]
    )
    async with acp_desk(tmp_path, model, 1) as desk:
        file = desk.work / "a.txt"
        file.write_bytes(b"\xef\xbb\xbfone\r\n")
        client = await editor(desk, {str(file): "one\ntwo\n"})
        await client.turn(await client.new(desk.work), "go")
        assert file.read_bytes() == b"\xef\xbb\xbfone\r\nthree\r\n"


async def test_no_file_outside_the_workspace_or_behind_a_link_comes_from_the_editor(tmp_path: Path) -> None:
    model = ScriptedModel([call("read", path="link.txt")], [say("ok")])
    async with acp_desk(tmp_path, model, 1) as desk:
        (desk.work / "real.txt").write_text("real\n")
        (desk.work / "link.txt").symlink_to("real.txt")
        buffers = {str(desk.work / name): "evil\n" for name in ("link.txt", "real.txt")}
        client = await editor(desk, buffers)
        await client.turn(await client.new(desk.work), "go")
        assert asked(client, "fs/read_text_file") == []
        assert "evil" not in told(model)


async def test_binary_files_are_not_asked_for(tmp_path: Path) -> None:
    model = ScriptedModel([call("read", path="a.bin")], [say("ok")])
    async with acp_desk(tmp_path, model, 1) as desk:
        (desk.work / "a.bin").write_bytes(b"\0\1\2")
        client = await editor(desk, {})
        await client.turn(await client.new(desk.work), "go")
        assert asked(client, "fs/read_text_file") == []


async def test_version_2_has_no_files(tmp_path: Path) -> None:
    model = ScriptedModel([call("read", path="a.txt")], [say("ok")])
    async with acp_desk(tmp_path, model, 2) as desk:
        (desk.work / "a.txt").write_text("saved\n")
        client = await editor(desk, {str(desk.work / "a.txt"): "unsaved\n"})
        await client.turn(await client.new(desk.work), "go")
        assert "unsaved" not in told(model)


# -- terminals


def methods(client: AcpClient) -> list[str]:
    return [one["method"] for one in client.messages if one.get("method", "").startswith("terminal/")]


async def test_a_command_without_a_sandbox_runs_in_a_terminal_of_the_editor(tmp_path: Path) -> None:
    model = ScriptedModel([call("shell", command="echo one; touch made; exit 3")], [say("Done.")])
    async with acp_desk(tmp_path, model, 1) as desk:
        client = await desk.client(offered={"terminal": True})
        client.terminals = {}
        assert await client.turn(await client.new(desk.work), "go") == "end_turn"
        assert (desk.work / "made").exists()
        assert list(client.terminals) == ["term-0"]
        assert methods(client) == ["terminal/create", "terminal/output", "terminal/release"]
        [*_, last] = [one for one in client.updates("tool_call_update") if one.get("content")]
        assert last["content"] == [{"type": "terminal", "terminalId": "term-0"}]
        assert last["status"] == "failed"
        assert "one" in told(model)
        assert "exit code 3" in told(model)


async def test_a_terminal_that_the_editor_refuses_is_not_needed(tmp_path: Path) -> None:
    model = ScriptedModel([call("shell", command="echo one >> made")], [say("Done.")])
    async with acp_desk(tmp_path, model, 1) as desk:
        client = await desk.client(offered={"terminal": True})
        assert await client.turn(await client.new(desk.work), "go") == "end_turn"
        assert methods(client) == ["terminal/create"]
        assert (desk.work / "made").read_text() == "one\n"


@pytest.mark.needs("bwrap")
async def test_a_command_that_belongs_in_the_sandbox_never_goes_to_the_editor(tmp_path: Path) -> None:
    model = ScriptedModel([call("shell", command="touch made")], [say("Done.")])
    async with acp_desk(tmp_path, model, 1, sandbox=WorkspaceWrite()) as desk:
        client = await desk.client(offered={"terminal": True})
        client.terminals = {}
        assert await client.turn(await client.new(desk.work), "go") == "end_turn"
        assert methods(client) == []
        assert client.terminals == {}


async def test_a_command_is_not_given_to_an_editor_whose_user_did_not_start_the_turn(tmp_path: Path) -> None:
    model = ScriptedModel([call("shell", command="touch made")], [say("Done.")])
    async with acp_desk(tmp_path, model, 1) as desk:
        watching = await desk.client(offered={"terminal": True})
        watching.terminals = {}
        client = await desk.client()
        session = await client.new(desk.work)
        await watching.open(session, desk.work)
        assert await client.turn(session, "go") == "end_turn"
        assert (desk.work / "made").exists()
        assert methods(watching) == []
