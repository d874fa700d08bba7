"""What every sandbox promises. Give `check_sandbox` an empty directory of its own and a shell."""

from pathlib import Path

import anyio

from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Launch, Sandbox

LIMIT_SECONDS = 60


async def check_sandbox(sandbox: Sandbox, directory: Path, *, shell: str = "/bin/sh", walls: bool = True) -> None:
    """Raises `AssertionError` for a broken promise. `walls`: it holds programs to their policy."""
    workspace, outside = directory / "workspace", directory / "outside"
    workspace.mkdir()
    outside.mkdir()

    async def run(command: str, policy: SandboxPolicy) -> tuple[int, str]:
        launch = Launch(argv=(shell, "-c", command), cwd=str(workspace), workspace=str(workspace), policy=policy)
        with anyio.fail_after(LIMIT_SECONDS):
            process = await sandbox.spawn(launch)
            output = b"".join([chunk async for chunk in process.output()]).decode()
            code = await process.wait()
            await process.kill()
            await process.kill()
            return code, output

    write = WorkspaceWrite()
    assert await run("echo out; echo err >&2", write) == (0, "out\nerr\n")
    assert await run("exit 7", write) == (7, "")
    assert (await run("kill -KILL $$", write))[0] in (-9, 128 + 9)
    assert await run("pwd", write) == (0, f"{workspace}\n")
    assert (await run("echo kept > kept.txt", write))[0] == 0
    assert (workspace / "kept.txt").read_text() == "kept\n"
    await _check_kill(sandbox, workspace, shell)
    if walls:
        assert (await run(f"echo x > {outside}/escaped", write))[0] != 0
        assert (await run("echo x > more.txt", ReadOnly()))[0] != 0
        assert list(outside.iterdir()) == []
        assert not (workspace / "more.txt").exists()


async def _check_kill(sandbox: Sandbox, workspace: Path, shell: str) -> None:
    """Killing it ends what it started as well: nobody is left who holds the pipe."""
    # The shell may see its child end before it is ended itself: it has something to do then, and does not exit with 0.
    command = "sleep 600 & echo started; wait; sleep 600"
    launch = Launch(argv=(shell, "-c", command), cwd=str(workspace), workspace=str(workspace), policy=WorkspaceWrite())
    with anyio.fail_after(LIMIT_SECONDS):
        process = await sandbox.spawn(launch)
        heard = b""
        async for chunk in process.output():
            heard += chunk
            if b"started" in heard:
                await process.kill()
        assert await process.wait() != 0
