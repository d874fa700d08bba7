"""`command/exec` and `fs/*` of Codex's clients, in a real sandbox."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flint_support import Talk, real_engine, talking
from hames.app import open_engine
from hames.config.load import load
from hames.testing.fakes.model import ScriptedModel
from support import engine

pytestmark = pytest.mark.needs("bwrap")


@asynccontextmanager
async def client(folder: Path, **start: Any) -> AsyncGenerator[tuple[Talk, Path]]:
    workspace = folder / "ws"
    workspace.mkdir()
    async with real_engine(ScriptedModel(), folder) as the_engine, talking(the_engine, "codex-tui") as talk:
        if start:
            await talk.start(cwd=str(workspace), **start)
        yield talk, workspace


async def refusal(talk: Talk, method: str, **params: Any) -> str:
    answer = await talk.answer(method, **params)
    assert "result" not in answer, answer
    return answer["error"]["message"]


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_a_command_runs_in_the_workspace_and_says_how_it_ended(tmp_path: Path) -> None:
    async with client(tmp_path) as (talk, workspace):
        done = await talk.call("command/exec", command=["sh", "-c", "pwd; echo oops >&2; exit 3"])
        assert done == {"exitCode": 3, "stdout": f"{workspace}\noops\n", "stderr": ""}
        (workspace / "below").mkdir()
        done = await talk.call("command/exec", command=["pwd"], cwd=str(workspace / "below"))
        assert done["stdout"] == f"{workspace}/below\n"
        env = {"GIVEN": "a b", "HOME": None}
        done = await talk.call("command/exec", command=["sh", "-c", 'echo "$GIVEN" "${HOME-none}"'], env=env)
        assert done["stdout"] == "a b none\n"
        done = await talk.call("command/exec", command=["sh", "-c", "printf 0123456789"], outputBytesCap=4)
        assert done["stdout"] == "0123"


async def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with client(tmp_path) as (talk, _):
        done = await talk.call("command/exec", command=["sh", "-c", "echo begun; sleep 600"], timeoutMs=1500)
        assert (done["exitCode"], done["stdout"]) == (124, "begun\n")


@pytest.mark.parametrize("given", [{"sandboxPolicy": {"type": "readOnly"}}, {"permissionProfile": ":read-only"}])
async def test_a_command_has_the_sandbox_that_it_names(tmp_path: Path, given: dict[str, Any]) -> None:
    async with client(tmp_path) as (talk, workspace):
        done = await talk.call("command/exec", command=["touch", str(workspace / "made")], **given)
        assert done["exitCode"] != 0
        assert "Read-only" in done["stdout"]
        assert not (workspace / "made").exists()
        done = await talk.call("command/exec", command=["touch", str(workspace / "made")])
        assert (done["exitCode"], (workspace / "made").exists()) == (0, True)


async def test_a_command_that_names_no_sandbox_has_the_threads(tmp_path: Path) -> None:
    async with client(tmp_path, sandbox="read-only") as (talk, workspace):
        done = await talk.call("command/exec", command=["touch", str(workspace / "made")])
        assert done["exitCode"] != 0
        assert not (workspace / "made").exists()


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"command": []}, "command: "),
        ({"command": ["a\0b"]}, "command: has a NUL"),
        ({"command": ["true"], "tty": True}, "tty: is not supported"),
        ({"command": ["true"], "streamStdin": True}, "streamStdin: is not supported"),
        ({"command": ["true"], "streamStdoutStderr": True}, "streamStdoutStderr: is not supported"),
        ({"command": ["true"], "cwd": "here"}, "cwd: must be an absolute path"),
        ({"command": ["true"], "cwd": "/no/such/place"}, "no directory"),
        ({"command": ["true"], "env": {"A=B": "c"}}, "env: 'A=B' is not a variable"),
        ({"command": ["true"], "timeoutMs": 5, "disableTimeout": True}, "cannot be combined with timeoutMs"),
        ({"command": ["true"], "outputBytesCap": 5, "disableOutputCap": True}, "cannot be combined with"),
        ({"command": ["true"], "sandboxPolicy": "read-only", "permissionProfile": ":workspace"}, "be combined"),
    ],
)
async def test_a_command_that_cannot_be_run_so_is_refused(tmp_path: Path, params: Any, sentence: str) -> None:
    async with client(tmp_path) as (talk, _):
        assert sentence in await refusal(talk, "command/exec", **params)


async def test_files_are_written_read_listed_copied_and_removed(tmp_path: Path) -> None:
    async with client(tmp_path) as (talk, workspace):
        data, file = bytes(range(256)) * 3000, str(workspace / "a name -n.bin")
        assert await talk.call("fs/writeFile", path=file, dataBase64=packed(data)) == {}
        assert Path(file).read_bytes() == data
        assert (await talk.call("fs/readFile", path=file))["dataBase64"] == packed(data)
        await talk.call("fs/writeFile", path=file, dataBase64="")
        assert (await talk.call("fs/readFile", path=file))["dataBase64"] == ""
        await talk.call("fs/createDirectory", path=str(workspace / "one/two"))
        await talk.call("fs/copy", sourcePath=file, destinationPath=str(workspace / "one/copy"))
        await talk.call(
            "fs/copy", sourcePath=str(workspace / "one"), destinationPath=str(workspace / "three"), recursive=True
        )
        (workspace / "link").symlink_to("one")
        entries = (await talk.call("fs/readDirectory", path=str(workspace)))["entries"]
        kinds = {entry["fileName"]: (entry["isDirectory"], entry["isFile"]) for entry in entries}
        expected = {"one": (True, False), "three": (True, False), "link": (True, False), "a name -n.bin": (False, True)}
        assert {name: kind for name, kind in kinds.items() if not name.startswith(".")} == expected
        told = await talk.call("fs/getMetadata", path=str(workspace / "link"))
        assert (told["isDirectory"], told["isFile"], told["isSymlink"]) == (True, False, True)
        assert told["modifiedAtMs"] > 0
        told = await talk.call("fs/getMetadata", path=file)
        assert (told["isDirectory"], told["isFile"], told["isSymlink"]) == (False, True, False)
        await talk.call("fs/remove", path=str(workspace / "one"))
        await talk.call("fs/remove", path=str(workspace / "never there"))
        assert not (workspace / "one").exists()
        assert (workspace / "three" / "copy").exists()


@pytest.mark.parametrize(
    ("method", "params", "sentence"),
    [
        ("fs/writeFile", {"path": "{outside}/x", "dataBase64": "eA=="}, "is outside the workspace"),
        ("fs/writeFile", {"path": "/tmp/x", "dataBase64": "eA=="}, "is outside the workspace"),
        ("fs/writeFile", {"path": "{ws}/../x", "dataBase64": "eA=="}, "is outside the workspace"),
        ("fs/writeFile", {"path": "{ws}beside", "dataBase64": "eA=="}, "is outside the workspace"),
        ("fs/createDirectory", {"path": "{outside}/x"}, "is outside the workspace"),
        ("fs/remove", {"path": "{outside}/kept"}, "is outside the workspace"),
        ("fs/copy", {"sourcePath": "{ws}/mine", "destinationPath": "{outside}/x"}, "is outside the workspace"),
        ("fs/readFile", {"path": "{outside}/kept"}, "No such file"),
        ("fs/copy", {"sourcePath": "{outside}/kept", "destinationPath": "{ws}/x"}, ""),
        ("fs/writeFile", {"path": "{ws}/way-out/x", "dataBase64": "eA=="}, ""),
        ("fs/readFile", {"path": "{ws}/missing"}, "No such file"),
        ("fs/readFile", {"path": "mine"}, "path: must be an absolute path"),
        ("fs/writeFile", {"path": "{ws}/x", "dataBase64": "no base64!"}, "dataBase64: is not base64"),
        ("fs/remove", {"path": "{ws}/folder", "recursive": False}, "Is a directory"),
        ("fs/remove", {"path": "{ws}/missing", "force": False}, "No such file"),
        ("fs/copy", {"sourcePath": "{ws}/folder", "destinationPath": "{ws}/x"}, "omitting directory"),
        ("fs/createDirectory", {"path": "{ws}/a/b/c", "recursive": False}, "No such file"),
    ],
)
async def test_what_the_sandbox_does_not_allow_is_refused_in_words(
    method: str, params: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    outside = Path.home() / f".hames-test-outside-{tmp_path.name}"
    outside.mkdir()
    try:
        (outside / "kept").write_text("mine alone")
        async with client(tmp_path, sandbox="workspace-write") as (talk, workspace):
            (workspace / "mine").write_text("x")
            (workspace / "folder").mkdir()
            (workspace / "way-out").symlink_to(outside)
            filled = {
                name: value.format(outside=outside, ws=workspace) if isinstance(value, str) else value
                for name, value in params.items()
            }
            message = await refusal(talk, method, **filled)
            assert message
            assert sentence in message
            assert [path.name for path in outside.iterdir()] == ["kept"]
            assert not (workspace / "x").exists()
    finally:
        for path in outside.iterdir():
            path.unlink()
        outside.rmdir()


async def test_a_read_only_thread_lets_its_client_read_and_not_write(tmp_path: Path) -> None:
    async with client(tmp_path, sandbox="read-only") as (talk, workspace):
        (workspace / "a").write_text("text")
        assert (await talk.call("fs/readFile", path=str(workspace / "a")))["dataBase64"] == packed(b"text")
        assert "Read-only" in await refusal(talk, "fs/writeFile", path=str(workspace / "a"), dataBase64="eA==")
        assert (workspace / "a").read_text() == "text"


async def test_where_nothing_may_run_here_commands_and_files_are_refused() -> None:
    async with engine(ScriptedModel()) as the_engine, talking(the_engine, "codex-tui") as talk:
        assert await refusal(talk, "command/exec", command=["true"]) == "this server runs no commands"
        assert await refusal(talk, "fs/readFile", path="/etc/passwd") == "this server runs no commands"


async def test_a_server_that_sends_its_turns_to_a_runner_runs_no_commands_itself(tmp_path: Path) -> None:
    options = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path), "HAMES_STATE": str(tmp_path / "state")})
    agents: dict[str, Any] = {"runner": object()}
    async with open_engine(options, agents=agents) as the_engine, talking(the_engine, "codex") as talk:
        assert await refusal(talk, "command/exec", command=["true"]) == "this server runs no commands"
