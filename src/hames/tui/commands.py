"""What begins with a slash."""

import time
from pathlib import Path
from typing import Any, Protocol, get_args

from rich.text import Text
from textual.screen import ModalScreen
from textual.theme import Theme

from hames.client.appserver import text_of
from hames.domain.display import printable
from hames.domain.policy import ApprovalPolicy
from hames.protocols.flint import messages as m
from hames.tui.composer import Composer
from hames.tui.lines import indented, line, paragraphs
from hames.tui.palette import Palette
from hames.tui.pickers import Choice, Line, Picked, Picker
from hames.tui.remembered import Remembered
from hames.tui.session import Session
from hames.tui.status import POLICIES, SANDBOXES, sandbox_name, sandbox_of, shown_sandbox, tokens
from hames.tui.text import ago, described_model

COMMANDS = {
    "help": "keys and commands",
    "new": "a new thread",
    "threads": "earlier threads: go on, fork, rename, archive, search",
    "resume": "go on with an earlier thread",
    "fork": "a copy of this thread, to try something else",
    "rename": "give this thread a name",
    "archive": "put this thread away",
    "model": "which model answers",
    "options": "every selector the server offers",
    "policy": "when to ask: unlessTrusted, always, never",
    "sandbox": "what commands may touch: readOnly, workspaceWrite, dangerFullAccess, externalSandbox",
    "compact": "replace what came before by a summary",
    "review": "let the agent review the uncommitted changes, or what you name",
    "queue": "say something after the turn that runs",
    "drop": "take a waiting prompt out of the queue: /drop 2",
    "history": "search earlier prompts",
    "copy": "copy the last answer",
    "status": "where we are and what it has cost",
    "theme": "light, dark and others",
    "quit": "leave",
}

KEYS = {
    "enter": "send; while a turn runs, steer it",
    "tab": "while a turn runs, queue the prompt",
    "shift+enter, ctrl+j": "a new line; so does \\ at the end",
    "esc": "stop the turn; back to the end",
    "shift+tab": "when to ask",
    "ctrl+o": "unfold or fold everything; a click does one",
    "ctrl+t": "threads",
    "ctrl+n": "a new thread",
    "ctrl+l": "models",
    "ctrl+g": "options",
    "ctrl+r": "earlier prompts; up and down walk through them",
    "alt+up": "take the last waiting prompt back",
    "pageup, pagedown": "scroll; ctrl+home and ctrl+end to the ends",
    "ctrl+c": "copy what is selected, clear, stop, leave",
    "ctrl+d": "leave",
    "f1": "this help",
}


class Face(Protocol):
    """What a command needs of the screen."""

    remembered: Remembered

    @property
    def composer(self) -> Composer: ...
    @property
    def theme_name(self) -> str: ...
    @property
    def available_themes(self) -> dict[str, Theme]: ...

    def note(self, words: str, *, meaning: str = ..., mark: str = ...) -> None: ...
    def show_theme(self, name: str) -> None: ...
    def action_help(self) -> None: ...
    def leave(self) -> None: ...
    def say(self, words: str) -> None: ...
    def copy_to_clipboard(self, text: str) -> None: ...
    async def choose(self, screen: ModalScreen[Any]) -> Any: ...


class Commands:
    def __init__(self, app: Face, session: Session) -> None:
        self._app = app
        self._session = session

    async def run(self, text: str) -> None:
        """Raises what the client raises."""
        name, _, rest = text.removeprefix("/").partition(" ")
        method = getattr(self, f"_{name.strip()}", None) if name.strip() in COMMANDS else None
        if method is None:
            self._app.note(f"no command /{name}; /help lists them", meaning="warn")
            return
        await method(rest.strip())

    async def _pick(self, picker: Picker) -> Picked | None:
        return await self._app.choose(picker)

    async def _help(self, _: str) -> None:
        self._app.action_help()

    async def _new(self, _: str) -> None:
        await self._session.fresh()

    async def _quit(self, _: str) -> None:
        self._app.leave()

    # -- threads

    async def _threads(self, _: str) -> None:
        app, session = self._app, self._session
        client = session.connected

        async def search(words: str) -> list[Choice]:
            found = await client.list_threads(limit=100, search=words or None)
            return [self._thread(thread) for thread in found.data]

        keys = {"ctrl+f": "fork", "ctrl+e": "rename", "ctrl+x": "archive"}
        while True:
            picked = await self._pick(Picker("Threads", await search(""), search=search, keys=keys))
            match picked:
                case None:
                    return
                case Picked(id=thread_id, key="ctrl+e"):
                    if name := await app.choose(Line("Name of the thread")):
                        await client.rename_thread(thread_id, name)
                case Picked(id=thread_id, key="ctrl+x"):
                    await client.archive_thread(thread_id)
                    if thread_id == session.talk.thread_id:
                        await session.fresh()
                case Picked(id=thread_id, key=key):
                    await session.open(thread_id, fork=key == "ctrl+f")
                    return

    def _thread(self, thread: m.Thread) -> Choice:
        status = thread.status.type if thread.status else ""
        when = "running" if status == "active" else ago(time.time() - thread.updated_at)
        return Choice(
            id=thread.id,
            label=(thread.name or thread.preview or thread.id).replace("\n", " ")[:50],
            detail=f"{when} · {thread.model} · {thread.id}{' · not written here' if thread.foreign else ''}",
            current=thread.id == self._session.talk.thread_id,
        )

    async def _resume(self, rest: str) -> None:
        if rest:
            await self._session.open(rest)
        else:
            await self._threads("")

    def _thread_id(self) -> str:
        if not self._session.talk.thread_id:
            self._app.note("this thread has not begun yet", meaning="warn")
        return self._session.talk.thread_id

    async def _fork(self, _: str) -> None:
        if thread_id := self._thread_id():
            await self._session.open(thread_id, fork=True)
            self._app.note("this is a copy; the original stays as it is")

    async def _rename(self, rest: str) -> None:
        if thread_id := self._thread_id():
            name = rest or await self._app.choose(Line("Name of the thread", self._session.talk.title))
            if name:
                await self._session.connected.rename_thread(thread_id, name)

    async def _archive(self, _: str) -> None:
        if thread_id := self._thread_id():
            await self._session.connected.archive_thread(thread_id)
            await self._session.fresh()
            self._app.note("archived; hames threads --archived lists it")

    # -- terms

    async def _model(self, rest: str) -> None:
        session = self._session
        if not rest:
            choices = [
                Choice(
                    id=model.id, label=model.id, detail=described_model(model), current=model.id == session.talk.model
                )
                for model in session.models
                if not model.hidden
            ]
            picked = await self._pick(Picker("Model", choices))
            rest = picked.id if picked else ""
        if rest:
            await session.change(model=rest)

    async def _options(self, _: str) -> None:
        """Every selector the same way, whatever it means."""
        session = self._session
        client, talk = session.connected, session.talk
        while True:
            options = await client.config_options(talk.thread_id or None)
            offered = [option for option in options if not option.model_ids or talk.model in option.model_ids]
            choices = [
                Choice(id=option.id, label=option.name, detail=f"{self._value(option)} · {option.description or ''}")
                for option in offered
            ]
            picked = await self._pick(Picker("Options", choices))
            if picked is None:
                return
            option = next(option for option in offered if option.id == picked.id)
            await self._choose(option)

    def _value(self, option: m.ConfigOption) -> str:
        value = self._session.talk.config.get(option.id, option.value)
        return next((choice.name for choice in option.options if choice.id == value), value)

    async def _choose(self, option: m.ConfigOption) -> None:
        session = self._session
        value = session.talk.config.get(option.id, option.value)
        choices = [
            Choice(id=one.id, label=one.name, detail=one.description or "", current=one.id == value)
            for one in option.options
        ]
        picked = await self._pick(Picker(option.name, choices))
        if picked is None:
            return
        if session.talk.thread_id:
            await session.connected.set_config(option.id, picked.id, thread_id=session.talk.thread_id)
        session.talk.config[option.id] = picked.id

    async def _policy(self, rest: str) -> None:
        if not rest:
            choices = [
                Choice(id=name, label=words, detail=name, current=name == self._session.talk.policy)
                for name, words in POLICIES.items()
            ]
            picked = await self._pick(Picker("When to ask", choices))
            rest = picked.id if picked else ""
        policy = next((name for name in get_args(ApprovalPolicy) if name == rest), None)
        if policy is not None:
            await self._session.change(policy=policy)
        elif rest:
            self._app.note(f"no policy {rest!r}; there are {', '.join(POLICIES)}", meaning="warn")

    async def _sandbox(self, rest: str) -> None:
        if not rest:
            choices = [
                Choice(id=name, label=words, detail=name, current=name == sandbox_name(self._session.talk.sandbox))
                for name, words in SANDBOXES.items()
            ]
            picked = await self._pick(Picker("What commands may touch", choices))
            rest = picked.id if picked else ""
        if rest in SANDBOXES:
            await self._session.change(sandbox=sandbox_of(rest))
        elif rest:
            self._app.note(f"no sandbox {rest!r}; there are {', '.join(SANDBOXES)}", meaning="warn")

    async def _theme(self, rest: str) -> None:
        app = self._app
        if not rest:
            choices = [Choice(id=name, label=name, current=name == app.theme_name) for name in app.available_themes]
            picked = await self._pick(Picker("Theme", choices))
            rest = picked.id if picked else ""
        if rest in app.available_themes:
            app.show_theme(rest)
        elif rest:
            app.note(f"no theme {rest!r}", meaning="warn")

    # -- turns

    async def _compact(self, _: str) -> None:
        if thread_id := self._thread_id():
            await self._session.connected.compact_thread(thread_id)

    async def _review(self, rest: str) -> None:
        session = self._session
        if not session.talk.thread_id:
            await session.begin_thread()
        target = m.Custom(instructions=rest) if rest else m.UncommittedChanges()
        await session.connected.start_review(session.talk.thread_id, target)

    async def _queue(self, rest: str) -> None:
        if rest:
            await self._session.send(rest, queued=True)

    async def _drop(self, rest: str) -> None:
        waiting = self._session.talk.waiting
        number = int(rest) if rest.isdecimal() else len(waiting)
        if 1 <= number <= len(waiting):
            await self._session.connected.drop_prompt(self._session.talk.thread_id, waiting[number - 1].id)
        else:
            self._app.note("no such prompt waits", meaning="warn")

    # -- looking back

    async def _history(self, _: str) -> None:
        prompts = list(dict.fromkeys(reversed(self._app.remembered.prompts)))
        choices = [Choice(id=str(number), label=prompt.replace("\n", " ")) for number, prompt in enumerate(prompts)]
        if picked := await self._pick(Picker("Earlier prompts", choices)):
            self._app.composer.put(prompts[int(picked.id)])

    async def _copy(self, _: str) -> None:
        if thread_id := self._thread_id():
            thread = await self._session.connected.read_thread(thread_id)
            said = next((words for turn in reversed(thread.turns) if (words := text_of(turn))), "")
            self._app.copy_to_clipboard(printable(said))
            self._app.say(f"{len(said)} characters copied")

    async def _status(self, _: str) -> None:
        talk = self._session.talk
        total = talk.spent.total
        lines = [
            f"thread   {talk.thread_id or 'not begun'}",
            f"model    {talk.model}",
            f"asks     {POLICIES[talk.policy]}",
            f"sandbox  {shown_sandbox(talk.sandbox)}",
            f"cwd      {talk.cwd or Path.cwd()}",
            f"notes    {', '.join(talk.notes) or ('none' if talk.thread_id else 'read with the first prompt')}",
        ]
        if total is not None:
            cached = f", {tokens(total.cached_input_tokens)} of it from the cache" if total.cached_input_tokens else ""
            lines.append(f"tokens   {tokens(total.input_tokens)} in{cached}, {tokens(total.output_tokens)} out")
        if talk.spent.window:
            lines.append(f"context  {tokens(talk.spent.context)} of {tokens(talk.spent.window)}")
        if (cost := talk.cost) is not None:
            lines.append(f"cost     ${cost:.4f}")
        self._app.note("\n".join(lines), mark="·")


def help_text(colours: Palette, width: int) -> Text:
    text = Text()
    for title, rows in (("Keys", KEYS), ("Commands", {f"/{name}": words for name, words in COMMANDS.items()})):
        text.append(f"{title}\n", colours.strong)
        for name, words in rows.items():
            for row in indented(paragraphs(words, colours.text, width - 21), line((f"{name:<21}", colours.accent))):
                text.append_text(row).append("\n")
        text.append("\n")
    text.rstrip()
    return text
