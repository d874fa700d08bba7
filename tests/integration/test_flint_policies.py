"""Policies given over flint hold for real commands and real files."""

import base64
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flint_support import Message, real_engine, talking
from hames.domain.request import PictureBlock, TextBlock
from hames.testing.fakes.model import ScriptedModel, call, say

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def ran(folder: Path, command: str, **params: Any) -> Message:
    """The one command item of a turn under these policies."""
    model = ScriptedModel([call("shell", command=command)], [say("Done.")])
    async with real_engine(model, folder) as engine, talking(engine) as talk:
        ended = await talk.prompt(await talk.start(approvalPolicy="never", **params))
    (item,) = [item for item in ended["turn"]["items"] if item["type"] == "commandExecution"]
    return item


@pytest.mark.needs("bwrap")
@pytest.mark.spec("flint/sandbox-read-only")
async def test_read_only_lets_nothing_be_written(folder: Path) -> None:
    item = await ran(folder, "touch made", sandbox={"type": "readOnly"})
    assert item["status"] == "failed"
    assert not (folder / "ws" / "made").exists()


@pytest.mark.spec("flint/sandbox-read-only", "flint/file-change-status-failed")
async def test_a_file_change_that_the_policy_forbids_has_failed_for_nobody_declined_it(folder: Path) -> None:
    model = ScriptedModel([call("write", path="made", content="x")], [say("Done.")])
    async with real_engine(model, folder) as engine, talking(engine) as talk:
        ended = await talk.prompt(await talk.start(approvalPolicy="never", sandbox={"type": "readOnly"}))
    assert "write" not in [tool.name for tool in model.requests[0].tools], "what would be refused is not offered"
    (item,) = [item for item in ended["turn"]["items"] if item["type"] not in ("userMessage", "agentMessage")]
    assert item["status"] == "failed"
    assert "read-only" in str(item)
    assert not (folder / "ws" / "made").exists()


@pytest.mark.needs("bwrap")
@pytest.mark.spec("flint/sandbox-workspace-write", "flint/sandbox-workspace-write-roots")
async def test_workspace_write_lets_the_workspace_and_the_named_roots_be_written(folder: Path) -> None:
    named, other = folder / "named", folder / "other"
    named.mkdir()
    other.mkdir()
    policy = {"type": "workspaceWrite", "writableRoots": [str(named)]}
    item = await ran(folder, f"touch made {named}/made; touch {other}/made", sandbox=policy)
    assert item["status"] == "failed"
    assert (folder / "ws" / "made").exists()
    assert (named / "made").exists()
    assert not (other / "made").exists()


@pytest.mark.needs("bwrap")
@pytest.mark.spec("flint/sandbox-workspace-write-network")
@pytest.mark.parametrize("access", [False, True])
async def test_the_network_is_closed_unless_it_is_opened(folder: Path, *, access: bool) -> None:
    ask = "exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}"
    ask += " && printf 'CONNECT 10.0.0.5:80 HTTP/1.1\\r\\n\\r\\n' >&3 && cat <&3"
    item = await ran(folder, ask, sandbox={"type": "workspaceWrite", "networkAccess": access})
    assert (item["exitCode"] == 0) is access, item
    # What the proxy refused is said in its answer, and once more in a note.
    said = item["aggregatedOutput"].count("refused: 10.0.0.5:80 is a private address")
    assert said == (2 if access else 0), item


@pytest.mark.needs("bwrap")
@pytest.mark.spec("flint/sandbox-workspace-write-network")
@pytest.mark.parametrize("access", [False, True])
async def test_a_server_on_this_machine_is_not_the_network(folder: Path, port: int, *, access: bool) -> None:
    connect = f"/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
    item = await ran(folder, connect, sandbox={"type": "workspaceWrite", "networkAccess": access})
    assert item["status"] == "failed", item
    assert "ConnectionRefusedError" in item["aggregatedOutput"]


@pytest.mark.spec("flint/sandbox-external", "flint/sandbox-external-network", "flint/sandbox-danger-full-access")
@pytest.mark.parametrize(
    "kind", [{"type": "externalSandbox", "networkAccess": "enabled"}, {"type": "dangerFullAccess"}]
)
async def test_without_walls_of_ours_a_command_can_write_anywhere(folder: Path, kind: dict[str, str]) -> None:
    item = await ran(folder, f"touch {folder}/made", sandbox=kind)
    assert item["status"] == "completed"
    assert (folder / "made").exists()


@pytest.mark.spec("flint/sandbox-external-network")
@pytest.mark.parametrize("access", ["restricted", "enabled"])
async def test_what_an_external_sandbox_says_of_the_network_is_kept(folder: Path, access: str) -> None:
    async with real_engine(ScriptedModel(), folder) as engine, talking(engine) as talk:
        given = {"type": "externalSandbox", "networkAccess": access}
        opened = await talk.call("thread/start", sandbox=given)
        assert opened["sandbox"] == given
        resumed = await talk.call("thread/resume", threadId=opened["thread"]["id"])
        assert resumed["sandbox"] == given


@pytest.mark.spec("flint/file-change-status-failed")
async def test_a_file_change_that_cannot_be_made_has_failed(folder: Path) -> None:
    model = ScriptedModel([call("write", path="new.txt", content="x")], [say("It failed.")])
    async with real_engine(model, folder) as engine, talking(engine) as talk:
        thread_id = await talk.start()
        await talk.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        question = await talk.until("item/fileChange/requestApproval")
        (folder / "ws" / "new.txt").mkdir()  # while the user thinks, something else takes the place
        await talk.say({"id": question["id"], "result": {"decision": "accept"}})
        ended = await talk.until("turn/completed")
    (item,) = [item for item in ended["params"]["turn"]["items"] if item["type"] == "fileChange"]
    assert item["status"] == "failed"


@pytest.mark.spec("flint/input-image", "flint/input-local-image")
async def test_pictures_by_url_by_data_and_by_path_reach_the_model_and_come_back_as_given(folder: Path) -> None:
    (folder / "ws" / "pixel.png").write_bytes(PIXEL)
    data = "data:image/png;base64," + base64.b64encode(PIXEL).decode()
    given = [
        {"type": "text", "text": "Look"},
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "image", "url": data},
        {"type": "localImage", "path": str(folder / "ws" / "pixel.png")},
    ]
    model = ScriptedModel([say("I see.")])
    async with real_engine(model, folder) as engine, talking(engine) as talk:
        thread_id = await talk.start()
        await talk.call("turn/start", threadId=thread_id, input=given)
        ended = await talk.until("turn/completed")
    assert ended["params"]["turn"]["status"] == "completed"
    assert ended["params"]["turn"]["items"][0]["content"] == given
    blocks = [block for message in model.requests[0].messages for block in message.blocks]
    pictures = [block for block in blocks if isinstance(block, PictureBlock)]
    assert [block.url for block in pictures] == ["https://example.com/a.png", "", ""]
    assert all(block.picture is not None for block in pictures[1:])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("data:image/png;base64,@@@", None),
        ("data:image/png;base64,AA==", None),
        ("data:image/png;base64," + base64.b64encode(PIXEL[:16] + b"\xff" * 8).decode(), None),
        ("data:image/jpeg;base64," + base64.b64encode(PIXEL).decode(), "image/png"),
        ("DATA:IMAGE/PNG;BASE64," + base64.b64encode(PIXEL).decode(), "image/png"),
    ],
    ids=["no base64", "no picture", "too large", "of another type", "in capitals"],
)
async def test_a_picture_no_service_would_take_is_told_in_words(folder: Path, url: str, shown: str | None) -> None:
    model = ScriptedModel([say("I see.")])
    async with real_engine(model, folder) as engine, talking(engine) as talk:
        await talk.call("turn/start", threadId=await talk.start(), input=[{"type": "image", "url": url}])
        await talk.until("turn/completed")
    (block,) = [block for message in model.requests[0].messages for block in message.blocks]
    if shown is None:
        assert isinstance(block, TextBlock)
        assert "cannot be shown" in block.text
    else:
        assert isinstance(block, PictureBlock)
        assert block.picture is not None
        assert block.picture.media_type == shown


@pytest.mark.parametrize("url", ["ftp://example.com/a.png", "data:text/html,hi", "file:///etc/passwd", ""])
async def test_a_picture_by_another_kind_of_url_is_refused(folder: Path, url: str) -> None:
    async with real_engine(ScriptedModel(), folder) as engine, talking(engine) as talk:
        thread_id = await talk.start()
        assert await talk.refused("turn/start", threadId=thread_id, input=[{"type": "image", "url": url}]) == -32602
        missing = [{"type": "localImage", "path": str(folder / "none.png")}]
        assert await talk.refused("turn/start", threadId=thread_id, input=missing) == -32602
