"""Checkpoints through a small process beside the engine (`program.py`), which scans the files."""

import hashlib
import json
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from hames.checkpoints import program
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ThreadId, TurnId
from hames.domain.undo import PathLeftAlone, RestoredPath, UndoReport
from hames.executables import find_program, script_command
from hames.private_files import private_directory

log = logging.getLogger(__name__)

_END_SECONDS = 2.0
_PACKAGE = str(Path(__file__).resolve().parent.parent.parent)


class WorkspaceCheckpoints:
    """Implements `ports.Checkpoints`. The process is started with the first question."""

    def __init__(
        self, directory: Path, *, home: str = "", excluded: Sequence[str] = (), store_bytes: int = 1 << 30
    ) -> None:
        """`excluded` are directories that hold nothing of the workspace, even if they lie in it."""
        self._directory = directory
        self._home = os.path.realpath(home) if home else ""
        self._excluded = [os.path.realpath(path) for path in excluded]
        self._store_bytes = store_bytes
        self._program: subprocess.Popen[bytes] | None = None
        self._talking = threading.Lock()
        self._git: dict[str, str] = {}
        self._running: dict[TurnId, _TurnCheckpoint] = {}
        self._told: set[str] = set()

    def turn(
        self, thread_id: ThreadId, turn_id: TurnId, workspace: str, *, still_writing: Callable[[], bool]
    ) -> "_TurnCheckpoint":
        return _TurnCheckpoint(self, thread_id, turn_id, workspace, still_writing)

    def refusal(self, workspace: str) -> str:
        """Why this directory gets no checkpoints. Empty: it gets them."""
        if workspace == "/" or (self._home and (self._home == workspace or self._home.startswith(f"{workspace}/"))):
            return "there is no undo in a home directory: start in a project's directory"
        return ""

    async def undo(
        self,
        workspace: str,
        turns: Sequence[TurnId],
        *,
        redo: bool = False,
        paths: Sequence[str] = (),
        overwrite: bool = False,
        preview: bool = False,
    ) -> UndoReport:
        if why := self.refusal(workspace):
            raise InvalidCommand(why)
        prefix = workspace.rstrip("/") + "/"
        named = [_normal(path.removeprefix(prefix)) for path in paths]
        answer = await self._ask(
            workspace,
            "undo",
            turns=list(turns),
            windows=self._windows(turns),
            redo=redo,
            paths=[] if "." in named else named,
            overwrite=overwrite,
            preview=preview,
        )
        if why := answer.get("error"):
            raise InvalidCommand(f"undo is not possible: {why}")
        return UndoReport(
            turns=tuple(TurnId(one) for one in answer["turns"]),
            redo=redo,
            preview=preview,
            by_turn={TurnId(turn): tuple(paths) for turn, paths in answer["by_turn"].items() if paths},
            restored=tuple(RestoredPath(path=path, action=action) for path, action in answer["restored"]),
            conflicts=tuple(PathLeftAlone(path=path, why=why) for path, why in answer["conflicts"]),
            not_kept=tuple(PathLeftAlone(path=path, why=why) for path, why in answer["left"]),
        )

    async def changed(self, workspace: str, turns: Sequence[TurnId]) -> dict[TurnId, int]:
        if self.refusal(workspace) or not (self.directory_of(workspace) / "turns.jsonl").exists():
            return {}
        answer = await self._ask(workspace, "changed", turns=list(turns), windows=self._windows(turns))
        return {TurnId(turn): count for turn, count in answer.get("turns", {}).items()}

    def _windows(self, turns: Sequence[TurnId]) -> dict[TurnId, list[tuple[int, int]]]:
        return {turn: self._running[turn].windows_now() for turn in turns if turn in self._running}

    def directory_of(self, workspace: str) -> Path:
        return self._directory / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]

    async def begin(self, checkpoint: "_TurnCheckpoint", paths: Sequence[str], *, first: bool) -> str:
        workspace = checkpoint.workspace
        self._running[checkpoint.turn_id] = checkpoint
        relative = [path.removeprefix(workspace.rstrip("/") + "/") for path in paths]
        wanted = [_normal(path) for path in relative if not path.startswith("/")]
        checkpoint.wanted.update(wanted)
        answer = await self._ask(
            workspace,
            "begin",
            thread=checkpoint.thread_id,
            turn=checkpoint.turn_id,
            wanted=wanted,
            first=first,
        )
        if why := answer.get("error"):
            log.warning("checkpoint.failed", extra={"thread_id": checkpoint.thread_id, "why": why})
            return self._once(workspace, f"Undo is not possible here: {why}.")
        if not answer["left"]:
            return ""
        path, why = answer["some"][0]
        more = f" and {answer['left'] - 1} more" if answer["left"] > 1 else ""
        return self._once(workspace, f"Undo does not cover {path}{more} ({why}).")

    def _once(self, workspace: str, sentence: str) -> str:
        if workspace in self._told:
            return ""
        self._told.add(workspace)
        return sentence

    async def end(self, checkpoint: "_TurnCheckpoint") -> None:
        answer = await self._ask(checkpoint.workspace, "end", **checkpoint.ending())
        self._running.pop(checkpoint.turn_id, None)
        if why := answer.get("error"):
            log.warning("checkpoint.failed", extra={"thread_id": checkpoint.thread_id, "why": why})

    async def _ask(self, workspace: str, do: str, **words: Any) -> dict[str, Any]:
        """The answer. It has an `error` when there is none."""
        ask = partial(self._ask_program, workspace, do, words)
        return await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)

    def _ask_program(self, workspace: str, do: str, words: dict[str, Any]) -> dict[str, Any]:
        with self._talking:
            try:
                directory = private_directory(self.directory_of(workspace))
                question = {
                    "directory": str(directory),
                    "workspace": workspace,
                    "git": self._find_git(workspace),
                    "excluded": self._excluded,
                    "limits": {"store_bytes": self._store_bytes},
                    "do": do,
                    "with": words,
                }
                return self._talk(json.dumps(question).encode() + b"\n")
            except OSError as problem:
                return {"error": problem.strerror or str(problem)}

    def _talk(self, line: bytes) -> dict[str, Any]:
        for last in (False, True):
            running = self._program
            if running is None or running.poll() is not None:
                running = self._program = self._start()
            assert running.stdin is not None and running.stdout is not None
            try:
                running.stdin.write(line)
                running.stdin.flush()
                if answer := running.stdout.readline():
                    return json.loads(answer)
            except BrokenPipeError:
                pass  # it had nothing to do for a while, and ended
            self._stop()
            if last:
                break
        return {"error": "the process that takes checkpoints does not answer"}

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            script_command(program.__file__, _PACKAGE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is not for it
            cwd="/",
            env={},
        )

    def _find_git(self, workspace: str) -> str:
        if workspace not in self._git:
            self._git[workspace] = find_program("git", path=os.environ.get("PATH"), workspace=workspace)
        return self._git[workspace]

    def close(self) -> None:
        """Turns that were cut off end here."""
        for checkpoint in list(self._running.values()):
            self._ask_program(checkpoint.workspace, "end", checkpoint.ending())
        with self._talking:
            running, self._program = self._program, None
        if running is not None:  # it ends by itself, and nobody waits for it
            threading.Thread(target=_end, args=(running,), name="checkpoints-end", daemon=True).start()

    def _stop(self) -> None:
        running, self._program = self._program, None
        if running is not None:
            _end(running)


def _end(running: subprocess.Popen[bytes]) -> None:
    assert running.stdin is not None and running.stdout is not None
    with suppress(BrokenPipeError):
        running.stdin.close()
    try:
        running.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
    running.stdout.close()


def _normal(path: str) -> str:
    return os.path.normpath(path)


class _TurnCheckpoint:
    """Implements `ports.TurnCheckpoint`."""

    def __init__(
        self,
        checkpoints: WorkspaceCheckpoints,
        thread_id: ThreadId,
        turn_id: TurnId,
        workspace: str,
        still_writing: Callable[[], bool],
    ) -> None:
        self.thread_id = thread_id
        self.turn_id = turn_id
        self.workspace = os.path.realpath(workspace)
        self._checkpoints = checkpoints
        self._still_writing = still_writing
        self._windows: list[tuple[int, int]] = []
        self._open_since = 0
        self._writers = 0
        self._begun = False
        self.wanted: set[str] = set()
        """Paths that tools said they would change."""
        self._refused = bool(checkpoints.refusal(self.workspace))

    async def before_write(self, paths: Sequence[str] = ()) -> str:
        if self._refused:
            return ""
        said = ""
        if not self._begun or paths:
            first, self._begun = not self._begun, True
            said = await self._checkpoints.begin(self, paths, first=first)
        self._writers += 1
        self._open_since = self._open_since or time.time_ns()
        return said

    def after_write(self) -> None:
        self._writers = max(0, self._writers - 1)
        if self._open_since and not self._writers and not self._still_writing():
            self._windows.append((self._open_since, time.time_ns()))
            self._open_since = 0

    def windows_now(self) -> list[tuple[int, int]]:
        """When something was writing, until now."""
        return [*self._windows, (self._open_since, time.time_ns())] if self._open_since else list(self._windows)

    def ending(self) -> dict[str, Any]:
        return {"turn": self.turn_id, "windows": self.windows_now(), "wanted": sorted(self.wanted)}

    async def end(self) -> None:
        if self._begun:
            await self._checkpoints.end(self)
