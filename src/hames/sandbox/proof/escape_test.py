"""The proof that the walls hold on this machine: more than a hundred attempts to get out, judged from outside.

`hames doctor` runs it, and so do the tests. Findings are values: what got out is a finding, not an exception.
"""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import anyio
from msgspec.structs import replace

from hames.domain.errors import SandboxUnavailable
from hames.domain.policy import SandboxPolicy
from hames.domain.value import Value
from hames.ports import Launch, TerminalSize
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.paths import read_start
from hames.sandbox.proof.attempts import run
from hames.sandbox.proof.attempts.network import ODD_SOCKETS
from hames.sandbox.proof.attempts.run import ATTEMPTS
from hames.sandbox.proof.targets import EscapeTargets, interpreter, set_up_targets

WHERE = "/var/tmp"


class AttemptResult(Value):
    """One attempt."""

    attempt: str
    escaped: bool


async def prove(
    policy: SandboxPolicy,
    settings: SandboxSettings | None = None,
    *,
    where: str = WHERE,
    neighbour: bool = False,
    terminal: bool = False,
) -> list[AttemptResult]:
    """Tries everything under `policy`. Raises `SandboxUnavailable` when there are no walls to try.

    `neighbour`: in the network of a process that runs in the background. `terminal`: with a terminal of its own.
    """
    python = interpreter()
    if python is None:
        return []
    with set_up_targets(where) as stage:
        chosen = settings or SandboxSettings()
        chosen = replace(
            chosen,
            extra_read=(*chosen.extra_read, str(Path(run.__file__).parent)),
            hidden=(*chosen.hidden, str(stage.moved_state), str(stage.missing_settings)),
        )
        sandbox = LocalSandbox(chosen, environ={"HOME": str(stage.home), "SECRET_TOKEN": stage.canary})
        launch = Launch(
            argv=(python, "-I", "-S", run.__file__, json.dumps(stage.told)),
            cwd=str(stage.ws),
            workspace=str(stage.ws),
            policy=policy,
            thread="proof" if neighbour else "",
            background=terminal,
            terminal=TerminalSize() if terminal else None,
        )
        beside = replace(launch, argv=("/bin/sleep", "600"), background=True, terminal=None)
        other = await sandbox.spawn(beside) if neighbour else None
        process = await sandbox.spawn(launch)
        try:
            said = b"".join([chunk async for chunk in process.output()]).decode(errors="replace")
        finally:
            await process.kill()
            if other is not None:
                await other.kill()
        claims = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
        if not claims.keys() & set(ATTEMPTS):
            raise SandboxUnavailable(f"the escape test could not be run: {said.strip()[-200:]}")
        survived = await _has_survivor(stage)
        return [
            AttemptResult(
                attempt=name,
                escaped=survived if name == "stay_in_a_session_of_its_own" else _has_escaped(name, claims, stage),
            )
            for name in ATTEMPTS
        ]


async def _has_survivor(stage: EscapeTargets) -> bool:
    for _ in range(200):  # the kernel ends a namespace a moment after its first process
        if not stage.running(stage.survivor):
            return False
        await anyio.sleep(0.01)
    return True


def _has_escaped(name: str, claims: dict[str, str], stage: EscapeTargets) -> bool:
    """What was seen outside; where nothing can be seen there, what the attempt claims. Silence is not a refusal."""
    claim = claims.get(name, "missing")
    judge = _JUDGES.get(name)
    return claim != "refused" if judge is None else judge(stage) or claim not in ("refused", "claimed")


def _exists(path: str) -> Callable[[EscapeTargets], bool]:
    return lambda stage: (stage.base / path).exists() or (stage.base / path).is_symlink()


def _differs(path: str, content: str = "untouched") -> Callable[[EscapeTargets], bool]:
    return lambda stage: read_start(stage.base / path) != content


def _is_marked(path: str) -> Callable[[EscapeTargets], bool]:
    return lambda stage: "escaped" in read_start(stage.base / path)


def _has_line(path: str, line: str) -> Callable[[EscapeTargets], bool]:
    return lambda stage: line in map(str.strip, read_start(stage.base / path).splitlines())


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0


def _was_reached(name: str) -> Callable[[EscapeTargets], bool]:
    return lambda stage: stage.heard(name)


_JUDGES: dict[str, Callable[[EscapeTargets], bool]] = {
    "create_a_file_outside": _exists("out/created"),
    "append_to_a_file_outside": _differs("out/appended"),
    "truncate_a_file_outside": _differs("out/truncated"),
    "rename_a_file_outside": _differs("out/renamed"),
    "move_a_file_out_of_its_directory": _differs("out/moved"),
    "remove_a_file_outside": _differs("out/removed"),
    "make_a_directory_outside": _exists("out/made"),
    "make_a_link_outside": _exists("out/symlinked"),
    "hard_link_a_file_outside": lambda stage: (stage.out / "linked").stat().st_nlink > 1,
    "change_a_mode_outside": lambda stage: _mode(stage.out / "chmodded") == 0o777,
    "change_a_time_outside": lambda stage: (stage.out / "touched").stat().st_mtime == 1,
    "make_a_fifo_outside": _exists("out/fifo"),
    "write_through_a_link_in_the_workspace": _exists("out/through-link"),
    "write_through_the_root_of_a_process": _exists("out/through-root"),
    "write_through_a_directory_of_a_process": _exists("out/through-cwd"),
    "kill_another_process": lambda stage: stage.processes["victim"].poll() is not None,
    "connect_to_a_server_on_loopback": _was_reached("tcp"),
    "connect_to_a_server_on_loopback_v6": _was_reached("tcp6"),
    "send_a_datagram": _was_reached("udp"),
    "connect_to_a_socket_outside": _was_reached("unix"),
    "send_to_a_socket_outside": _was_reached("unix_dgram"),
    "connect_to_a_socket_in_the_workspace": _was_reached("unix_ws"),
    "connect_to_an_abstract_socket": _was_reached("abstract"),
    "write_through_a_hard_link": _differs("out/cache-entry"),
    "change_a_mode_through_a_hard_link": lambda stage: _mode(stage.out / "cache-mode") == 0o777,
    "write_through_a_hard_link_to_an_object": _differs("out/cache-object"),
    "change_the_moved_state_of_the_harness": _exists("ws/moved-state/forged"),
    "make_settings_of_the_harness": lambda stage: stage.missing_settings.is_file(),
    **{
        f"connect_to_a_{name}_socket_{where}": _was_reached(f"{name}_{place}")
        for place, where in (("out", "outside"), ("ws", "in_the_workspace"))
        for name in ODD_SOCKETS
    },
    "plant_a_git_hook": _exists("ws/.git/hooks/pre-commit"),
    "change_the_git_configuration": _is_marked("ws/.git/config"),
    "replace_the_git_configuration": _is_marked("ws/.git/config"),
    "redirect_the_repository": lambda stage: "elsewhere" in read_start(stage.ws / ".git/commondir"),
    "change_hooks_of_another_directory": _exists("ws/.husky/pre-commit"),
    "change_an_included_git_configuration": _is_marked("ws/tools/git/shared.config"),
    "hard_link_the_git_configuration": _is_marked("ws/.git/config"),
    "write_to_the_logs_of_the_harness": _exists("ws/.harness/threads/forged"),
    "make_an_agent_directory": _exists("ws/.claude/settings.json"),
    "make_an_agent_file": _is_marked("ws/.mcp.json"),
    "make_an_agent_file_by_rename": _is_marked("ws/.mcp.json"),
    "make_editor_tasks": _exists("ws/.vscode/tasks.json"),
    "change_an_agent_configuration": _is_marked("ws/.codex/config.toml"),
    "replace_an_agent_link": lambda stage: not (stage.ws / ".gemini").is_symlink(),
    "change_a_shell_start_file": _is_marked("ws/.bashrc"),
    "plant_a_nested_repository": _exists("ws/nested/.git/hooks/pre-commit"),
    "plant_settings_of_a_nested_repository": _has_line("ws/a/b/c/d/e/f/.git/config", "fsmonitor = escaped"),
    "plant_a_bare_repository": _has_line("ws/bare/config", "fsmonitor = escaped"),
    "plant_a_command_in_a_paused_rebase": _has_line("ws/.git/rebase-merge/git-rebase-todo", "exec escaped"),
    "lead_git_out_of_the_workspace": _exists("ws/elsewhere-below/.git"),
    "leave_a_set_uid_program": lambda stage: bool(_mode(stage.ws / "set-uid") & (stat.S_ISUID | stat.S_ISGID)),
}
