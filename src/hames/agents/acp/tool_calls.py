"""Tool calls of an ACP agent, each shown as one item.

An agent may announce a call, ask permission for it, and then hand its command or its file change to us: all three are
one item, which our own tool goes on with. What is only announced is not shown as running at once, because a question
about it may follow.
"""

import codecs
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import anyio
from msgspec.structs import replace

from hames.agents.acp import items
from hames.domain.ids import ItemId
from hames.domain.items import CommandExecution, FileChange, ItemStatus
from hames.domain.json import Json
from hames.ports import TurnHandle

ANNOUNCED_SECONDS = 1.0
"""How long a call that is only announced waits for a question about it before it is shown as running."""
CUT_OFF = "cut off: the agent was killed. It may have run, wholly or in part"


@dataclass(slots=True)
class ShownCall:
    """A tool call of the agent's, and its item once it is known what is called."""

    state: items.ToolState
    item: items.AcpItem | None = None
    is_ours: bool = False
    """Our own tool carries it out, so its item says how it goes and not the agent."""
    output: str = ""
    """What was streamed of its output."""
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )

    @property
    def is_announced(self) -> bool:
        """Whether it is known what is called, and nobody sees it yet."""
        return self.item is None and not self.is_ours and self.state.is_ready

    @property
    def is_open(self) -> bool:
        return not self.is_ours and self.item is not None and self.item.status == "running"


@dataclass(slots=True)
class HandedWork:
    """What the agent handed to us, under an item of its own, and has not named as one of its calls so far."""

    item_id: ItemId
    commands: frozenset[str] = frozenset()
    path: str = ""


class ToolCalls:
    def __init__(self, turn: TurnHandle, declined: set[str], *, end_words: Callable[[], Awaitable[None]]) -> None:
        """`declined` are the calls that a person, or a rule, said no to. `end_words` comes before every new item."""
        self._turn = turn
        self._declined = declined
        self._end_words = end_words
        self._calls: dict[str, ShownCall] = {}
        self._handed: list[HandedWork] = []
        self._own_terminals: set[str] = set()
        self._announced = anyio.Event()

    # -- what the agent says

    async def update(self, update: dict[str, Json], *, show: bool = False) -> ShownCall:
        """`show`: something is asked about the call, so people must see it."""
        call = self._call(str(update.get("toolCallId")))
        await self._note(call, call.state.updated(update), show=show)
        match update.get("_meta"):  # version 1 has no stream for output; some agents send it beside
            case {"terminal_output": {"data": str(data)}}:
                await self._stream(call, data)
            case _:
                pass
        return call

    async def shown_item(self, call: ShownCall) -> items.AcpItem:
        """The item of a call that something is asked about."""
        if call.item is None:  # it is ours, or was announced in a way that names nothing
            await self._open(call)
        assert call.item is not None
        return call.item

    async def add_content(self, call_id: str, content: Json) -> None:
        call = self._call(call_id)
        await self._note(call, call.state.with_content(content))

    async def terminal_update(self, terminal: str, update: dict[str, Json]) -> None:
        """Output of a command of the agent's own (version 2)."""
        call = next((one for one in self._calls.values() if terminal in one.state.terminals), None)
        if call is None:
            call = self._call(terminal)
            call.state = replace(call.state, kind="execute", terminals=(terminal,))
        if isinstance(command := update.get("command"), str) and not call.state.raw_input:
            call.state = replace(call.state, raw_input={"command": command})
        match update:
            case {"data": str(data)}:
                await self._stream(call, call.decoder.decode(items.terminal_bytes(data)))
            case {"output": {"data": str(data)}}:
                whole = items.terminal_bytes(data).decode(errors="replace")
                if whole.startswith(call.output):
                    await self._stream(call, whole[len(call.output) :])
            case _:
                pass
        match update.get("exitStatus"):
            case {"exitCode": int(code)}:
                call.state = replace(call.state, exit_code=code)
            case _:
                pass

    async def wait_announced(self) -> None:
        """Returns a while after a call was announced."""
        await self._announced.wait()
        self._announced = anyio.Event()
        await anyio.sleep(ANNOUNCED_SECONDS)

    async def show_announced(self) -> None:
        """Shows what is announced and known, before anything that comes behind it."""
        for call in list(self._calls.values()):
            if call.is_announced:
                await self._start(call)

    async def end_all(self) -> None:
        """Calls that the agent never told the end of. Some tell none; the turn went on behind them."""
        await self.show_announced()
        for call in self._calls.values():
            if call.is_open:
                declined = call.state.call_id in self._declined
                await self._complete(call, "failed" if declined else "completed")

    async def close_cut_off(self) -> None:
        """Closes what is open because the agent was killed."""
        for call in self._calls.values():
            if call.is_open and call.item is not None:
                call.item = items.completed_item(call.item, replace(call.state, text=CUT_OFF), "interrupted")
                await self._turn.complete(call.item)

    # -- what it hands to us

    def hand_command(self, item_id: ItemId, commands: Sequence[str]) -> ItemId | None:
        """A command is carried out by us, in a terminal with this id. Returns the item that shows it already.

        `commands` are the ways to write it. A call that names no command is taken for it if it is the only open one.
        """
        texts = frozenset(_plain(one) for one in commands if one)
        waiting = [one for one in self._calls.values() if one.is_open and isinstance(one.item, CommandExecution)]
        waiting = [one for one in waiting if not one.state.terminals and one.state.ended is None]
        found = next((one for one in waiting if _plain(items.command_of(one.state)) in texts), None)
        if found is None and len(waiting) == 1 and not waiting[0].state.raw_input:
            found = waiting[0]
        self._own_terminals.add(item_id)
        return self._take(found, HandedWork(item_id, commands=texts))

    def hand_change(self, item_id: ItemId, path: str) -> ItemId | None:
        """A file is written by us. Returns the item that shows the change already: one of this file alone."""
        waiting = [one for one in self._calls.values() if one.is_open and isinstance(one.item, FileChange)]
        found = next((one for one in waiting if one.state.ended is None and one.state.paths == {path}), None)
        return self._take(found, HandedWork(item_id, path=path))

    def _take(self, call: ShownCall | None, work: HandedWork) -> ItemId | None:
        if call is None or call.item is None:
            call = next((one for one in self._calls.values() if _is_about(one, work)), None)
            if call is None:
                self._handed.append(work)
            else:  # announced, and not shown yet
                call.is_ours = True
            return None
        call.is_ours = True
        return call.item.id

    def _is_handed(self, call: ShownCall) -> bool:
        """Whether our own item shows this call already."""
        if any(one in self._own_terminals for one in call.state.terminals):
            return True
        for work in self._handed:
            if _is_about(call, work):
                self._handed.remove(work)
                return True
        return False

    # -- items

    def _call(self, call_id: str) -> ShownCall:
        if call_id not in self._calls:
            self._calls[call_id] = ShownCall(items.ToolState(call_id=call_id))
        return self._calls[call_id]

    async def _note(self, call: ShownCall, state: items.ToolState, *, show: bool = False) -> None:
        if call.item is not None and call.item.status != "running":
            return
        call.state = state
        if call.item is None and not call.is_ours:
            call.is_ours = self._is_handed(call)
        if call.is_ours:
            return
        if call.item is None and state.is_ready and not show and state.is_announced:
            self._announced.set()
        elif call.item is None and (show or state.is_ready):
            await self._open(call)
        if isinstance(call.item, CommandExecution) and not state.terminals:
            await self._stream_content(call)
        if call.item is not None and (status := state.ended) is not None:
            await self._complete(call, status)

    async def _open(self, call: ShownCall) -> None:
        for earlier in takewhile(lambda one: one is not call, list(self._calls.values())):
            if earlier.is_announced:
                await self._start(earlier)
        await self._start(call)

    async def _start(self, call: ShownCall) -> None:
        await self._end_words()
        call.item = items.opened_item(call.state, self._turn.new_item_id(), self._turn.step, self._turn.settings.cwd)
        call.is_ours = False
        await self._turn.start(call.item)

    async def _stream_content(self, call: ShownCall) -> None:
        """Output as content: the agent sends all of it anew each time."""
        text = items.plain_text(call.state.text)
        if text.startswith(call.output):
            await self._stream(call, text[len(call.output) :])
        elif text and call.state.ended is not None:
            await self._stream(call, f"\n{text}")

    async def _stream(self, call: ShownCall, text: str) -> None:
        if not text or call.is_ours:
            return
        if call.item is None:
            await self._note(call, replace(call.state, status="in_progress"))
        if isinstance(call.item, CommandExecution) and call.item.status == "running":
            call.output += text
            await self._turn.append(call.item.id, text, "output")

    async def _complete(self, call: ShownCall, status: ItemStatus) -> None:
        assert call.item is not None
        if status == "failed" and call.state.call_id in self._declined:
            status = "declined"
        call.item = items.completed_item(call.item, call.state, status, call.output)
        await self._turn.complete(call.item)


def _is_about(call: ShownCall, work: HandedWork) -> bool:
    if not call.is_announced:
        return False
    if work.path:
        return call.state.kind in ("edit", "move", "delete") and call.state.paths == {work.path}
    return call.state.is_command and _plain(items.command_of(call.state)) in work.commands


def _plain(command: str) -> str:
    return " ".join(command.split())
