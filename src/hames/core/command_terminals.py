"""Commands in a terminal of the editor, for commands that run without a sandbox anyway.

Only the editor sees such a process, so it is asked for its output until it has ended. An editor that cannot start it is
not needed: the command then runs here. Once it has started it is never started again.
"""

from collections.abc import AsyncIterator

import anyio

from hames.core.thread import Thread
from hames.domain.ids import ItemId
from hames.domain.json import Json
from hames.ports import EditorClient, Process, ToolFailed

OUTPUT_BYTES = 1 << 20
FIRST_POLL_SECONDS, LAST_POLL_SECONDS = 0.05, 0.5
LOST = "the editor no longer tells about its terminal; the command may still run there"
KILLED = -9


class EditorTerminals:
    """Implements `ports.CommandTerminals`."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    async def start(self, item_id: ItemId, argv: tuple[str, ...], cwd: str) -> Process | None:
        clients = [one for one in self._thread.tool_clients() if isinstance(one, EditorClient)]
        ranked = [(one.terminal_rank(self._thread.id), one) for one in clients]
        rank, editor = max(ranked, key=lambda pair: pair[0], default=(0, None))
        if editor is None or not rank:
            return None
        about: dict[str, Json] = {
            "command": argv[0],
            "args": list(argv[1:]),
            "cwd": cwd,
            "outputByteLimit": OUTPUT_BYTES,
        }
        match await editor.use_terminal(self._thread.id, item_id, "create", about):
            case {"terminalId": str(terminal)} if terminal:
                return EditorProcess(editor, self._thread, item_id, terminal)
            case _:
                return None


class EditorProcess:
    """Implements `ports.Process`."""

    pid = 0

    def __init__(self, editor: EditorClient, thread: Thread, item_id: ItemId, terminal: str) -> None:
        self._editor = editor
        self._thread_id = thread.id
        self._item_id = item_id
        self._terminal = terminal
        self._code: int | None = None
        self._released = False

    async def output(self) -> AsyncIterator[bytes]:
        said, pause = "", FIRST_POLL_SECONDS
        while self._code is None:
            match await self._ask("output"):
                case {"output": str(text)} as told:
                    new = text[len(said) :] if text.startswith(said) else f"\n[…]\n{text}"
                    self._note_exit(told.get("exitStatus"))
                    if text != said:
                        said, pause = text, FIRST_POLL_SECONDS
                        yield new.encode(errors="replace")
                case _:
                    raise ToolFailed(LOST)
            if self._code is None:
                await anyio.sleep(pause)
                pause = min(pause * 1.5, LAST_POLL_SECONDS)

    async def wait(self) -> int:
        return KILLED if self._code is None else self._code

    async def kill(self) -> None:
        if self._released:
            return
        self._released = True
        if self._code is None:
            await self._ask("kill")
        await self._ask("release")

    def _note_exit(self, status: Json) -> None:
        match status:
            case {"exitCode": int(code)}:
                self._code = code
            case {}:
                self._code = KILLED
            case _:
                pass

    async def _ask(self, action: str) -> Json:
        return await self._editor.use_terminal(self._thread_id, self._item_id, action, {"terminalId": self._terminal})
