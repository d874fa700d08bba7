"""What the model is told about where it works: the whole situation once, and afterwards what has changed.

What is told is an event in the log, at its place in the conversation. So every later request begins with the same
bytes, also after a restart and in a fork.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hames.domain.events import ContextAdded
from hames.domain.items import FileChange, Item, ToolCall
from hames.domain.options import Settings
from hames.domain.situation import Facts, Situation, branch_change, describe, describe_changes, note
from hames.ports import Environment, Glance, TurnHandle

FILES_WATCHED = 200
"""So many files that the model has read or changed are looked at, the latest ones."""
FILES_TOLD = 10
READ = "read"
"""The tool whose `path` the model has seen the content of."""


class Surroundings:
    """Of one thread that is loaded. `environment` None: the model is told nothing by messages.

    `ended` says which background processes have ended since it was asked last, in words.
    """

    def __init__(self, environment: Environment | None, ended: Callable[[], str] = lambda: "") -> None:
        self._environment = environment
        self._ended = ended
        self._stamps: dict[str, str] = {}
        """The files that the model knows, and how they were when it last saw them or was told of a change."""
        self._git: _GitLook | None = None
        """Until its answer was told."""
        self._files: dict[str, None] | None = None
        """Those files, the latest last; None: the log has not been searched for them."""

    def look_ahead(self, turn: TurnHandle, settings: Settings, tasks: TaskGroup) -> None:
        """Begins to ask git before the first prompt, beside everything else that has to be done for it."""
        if self._environment is not None and turn.state.situation is None and self._git is None:
            self._git = _GitLook(self._environment, settings.cwd)
            tasks.start_soon(self._git.run)

    @property
    def told(self) -> bool:
        return self._environment is not None

    async def begin_turn(self, turn: TurnHandle, settings: Settings) -> None:
        """Tells the situation, or what has changed since it was told."""
        if self._environment is None:
            return
        known = turn.state.situation
        if known is None:
            facts = await self._environment.describe(settings.cwd)
            if facts.branch and self._git is not None and self._git.cwd == settings.cwd:
                with anyio.move_on_after(self._environment.git_wait):
                    await self._git.done.wait()
                facts = replace(facts, git_state=self._take_git())
            now = _situation(settings, facts)
            await self._add(turn, describe(now), now)
            return
        if self._files is None:
            self._files = {}
            for one in turn.state.turns:
                self._note_files(one.items, settings.cwd)
        glance = await self._environment.look(settings.cwd, list(self._files))
        facts = replace(known.facts, date=glance.date, branch=glance.branch)
        now = _situation(settings, facts)
        changed = _files_changed(self._changed(turn, glance), settings.cwd)
        parts = (describe_changes(known, now), changed, self._late_git(settings), self._processes())
        if words := "\n".join(part for part in parts if part):
            await self._add(turn, words, now)

    async def after_tools(self, turn: TurnHandle, settings: Settings) -> None:
        """Tells what has changed on disk while the calls of a step ran."""
        known = turn.state.situation
        if self._environment is None or known is None:
            return
        own = self._note_files(_items_of_step(turn), settings.cwd)
        glance = await self._environment.look(settings.cwd, list(self._files or ()))
        branch = branch_change(known.facts.branch, glance.branch)
        changed = [path for path in self._changed(turn, glance) if path not in own]
        parts = [
            note(*branch) if branch else "",
            _files_changed(changed, settings.cwd),
            self._late_git(settings),
            self._processes(),
        ]
        if words := "\n".join(part for part in parts if part):
            await self._add(turn, words, replace(known, facts=replace(known.facts, branch=glance.branch)))

    def _take_git(self) -> str:
        """What git said, if it has; once."""
        git = self._git
        if git is None or not git.done.is_set():
            return ""
        self._git = None
        return git.state

    def _late_git(self, settings: Settings) -> str:
        if self._git is not None and self._git.cwd != settings.cwd:
            self._git = None
        state = self._take_git()
        return note(f"Git, before your first step: {state}.") if state else ""

    def _processes(self) -> str:
        words = self._ended()
        return note(words) if words else ""

    def _changed(self, turn: TurnHandle, glance: Glance) -> list[str]:
        """The files that are not as the model last saw them. Each change is told once."""
        ended = [one.ended_at_ms for one in turn.state.turns if one.ended_at_ms is not None]
        last_ns = ended[-1] * 1_000_000 if ended else 0
        changed: list[str] = []
        for path, stamp in glance.stamps.items():
            before = self._stamps.get(path)
            if before is None:  # nobody looked then: it was loaded from the log since
                if last_ns and stamp and int(stamp.partition(":")[0]) > last_ns:
                    changed.append(path)
            elif before != stamp:
                changed.append(path)
            self._stamps[path] = stamp
        return changed

    def _note_files(self, items: Iterable[Item], cwd: str) -> set[str]:
        """Remembers the files that these items show the model. Returns them."""
        files = self._files = self._files or {}
        noted: set[str] = set()
        for item in items:
            for path in _paths(item, cwd):
                files.pop(path, None)
                files[path] = None
                noted.add(path)
        for path in list(files)[:-FILES_WATCHED]:
            del files[path]
        return noted

    async def _add(self, turn: TurnHandle, text: str, situation: Situation) -> None:
        await turn.emit(ContextAdded(turn_id=turn.turn_id, step=turn.step, text=text, situation=situation))


class _GitLook:
    def __init__(self, environment: Environment, cwd: str) -> None:
        self.cwd = cwd
        self.done = anyio.Event()
        self.state = ""
        self._environment = environment

    async def run(self) -> None:
        try:
            self.state = await self._environment.git_state(self.cwd)
        finally:
            self.done.set()


def _situation(settings: Settings, facts: Facts) -> Situation:
    return Situation(
        model=settings.model,
        cwd=settings.cwd,
        approval_policy=settings.approval_policy,
        sandbox=settings.sandbox,
        agent=settings.agent,
        personality=settings.personality,
        mode_instructions=settings.mode_instructions,
        facts=facts,
    )


def _items_of_step(turn: TurnHandle) -> Iterator[Item]:
    running = turn.state.turn(turn.turn_id)
    for item in reversed(running.items if running is not None else ()):
        if item.step != turn.step:
            return
        yield item


def _paths(item: Item, cwd: str) -> Iterable[str]:
    """The files whose content the model knows by this item."""
    match item:
        case FileChange(status="completed", changes=changes):
            return [update.path for update in changes]
        case ToolCall(name=name, status="completed", arguments={"path": str(path)}) if name == READ:
            return [str(PurePath(cwd, path))]
        case _:
            return ()


def _files_changed(paths: list[str], cwd: str) -> str:
    if not paths:
        return ""
    names = [path.removeprefix(cwd.rstrip("/") + "/") for path in paths[:FILES_TOLD]]
    more = f" and {len(paths) - FILES_TOLD} more" if len(paths) > FILES_TOLD else ""
    words = "Changed on disk since you last read or changed them, by a command or by somebody else"
    return note(f"{words}: {', '.join(names)}{more}. Read them again before you rely on what you know of them.")
