"""The slash commands of the terminal: /model, /threads, /diff, /compact and the others."""

import time
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from hames.client.appserver.client import text_of
from hames.client.appserver.link import AppServerError, ConnectionClosed
from hames.config.project import other_agents_files
from hames.domain import modes
from hames.domain.commands import split_reviewer
from hames.domain.display import printable, visible
from hames.domain.policy import ApprovalPolicy
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import FileChangeItem
from hames.tui.blocks.actions import WorkspaceChanges
from hames.tui.conversation import AGENT_OPTION
from hames.tui.git_changes import NoDiff, uncommitted_changes
from hames.tui.help import COMMANDS, OTHER_NAMES, POINTERS
from hames.tui.lines import cut
from hames.tui.modes import (
    APPROVAL_MODES,
    MODE_DETAILS,
    MODES,
    POLICIES,
    SANDBOX_DETAILS,
    SANDBOXES,
    effective_sandbox,
    sandbox_name,
    sandbox_of,
    shown_mode,
    shown_sandbox,
    writable_roots,
)
from hames.tui.pickers import Line, Picked, Picker, PickerChoice
from hames.tui.screen import ConversationScreen
from hames.tui.session import Session
from hames.tui.text import MODEL_GROUPS, ago, context_text, described_model, model_group, tokens
from hames.tui.undoing import choose_rewind, undo
from hames.tui.worktrees import use_worktree

INIT = """\
Look at this project and write an AGENTS.md file in its root: short notes for coding agents and newcomers. \
Include how to set up, build, test and lint (with the exact commands, checked against the files that define them), \
how the code is organised, and the conventions that the code itself shows. Keep it under 60 lines. \
If an AGENTS.md exists already, improve it instead of replacing what is still true."""

GO = "Go ahead: carry out the plan."

THEMES = {"light": "hames-light", "dark": "hames-dark"}


def _process_line(one: m.ThreadProcess) -> str:
    ended = f"exit code {one.exit_code}" if (one.exit_code or 0) >= 0 else f"signal {-(one.exit_code or 0)}"
    state = f"running for {one.seconds:.0f} s" if one.status == "running" else f"ended: {ended}"
    return f"{one.process}  {state}  {cut(printable(one.command), 60)}"


class Commands:
    def __init__(self, app: ConversationScreen, session: Session) -> None:
        self._app = app
        self._session = session

    async def run(self, text: str) -> None:
        """Raises what the client raises."""
        name, *words = text.removeprefix("/").split(maxsplit=1) or [""]
        name = OTHER_NAMES.get(name, name)
        method = getattr(self, f"_{name}", None) if name in COMMANDS else None
        if name in POINTERS:
            self._app.note(POINTERS[name], meaning="warn")
            return
        if method is None:
            near = get_close_matches(name, COMMANDS, n=1, cutoff=0.75)
            meant = f"Did you mean /{near[0]}? " if near else ""
            self._app.note(f"Unknown command /{name}. {meant}/help lists all commands", meaning="warn")
            return
        await method(words[0].strip() if words else "")

    async def _picked(self, title: str, choices: list[PickerChoice]) -> str:
        """The id of what was chosen; empty: the list was closed."""
        picked = await self._app.push_screen_wait(Picker(title, choices))
        return picked.id if picked else ""

    async def _line(self, title: str) -> str | None:
        return await self._app.push_screen_wait(Line(title))

    async def _help(self, _: str) -> None:
        self._app.action_help()

    async def _new(self, _: str) -> None:
        await self._session.start_new_thread()

    async def _exit(self, _: str) -> None:
        self._app.exit(0)

    # -- threads

    async def _threads(self, _: str) -> None:
        app, session = self._app, self._session
        client = session.connected

        async def search(words: str) -> list[PickerChoice]:
            try:
                found = await client.list_threads(limit=100, search=words or None)
            except (AppServerError, ConnectionClosed):
                return []  # the screen below says what happened
            return [self._thread(thread) for thread in found.data]

        keys = {"ctrl+f": "fork", "ctrl+e": "rename", "ctrl+x": "archive"}
        while True:
            picked = await self._app.push_screen_wait(Picker("Threads", await search(""), search=search, keys=keys))
            match picked:
                case None:
                    return
                case Picked(id=thread_id, key="ctrl+e"):
                    if name := await app.push_screen_wait(Line("Name of the thread")):
                        await client.rename_thread(thread_id, name)
                case Picked(id=thread_id, key="ctrl+x"):
                    await client.archive_thread(thread_id)
                    if thread_id == session.talk.thread_id:
                        await session.start_new_thread()
                case Picked(id=thread_id, key=key):
                    await session.open(thread_id, fork=key == "ctrl+f")
                    return

    def _thread(self, thread: m.Thread) -> PickerChoice:
        status = thread.status.type if thread.status else ""
        when = "running" if status == "active" else ago(time.time() - thread.updated_at)
        return PickerChoice(
            id=thread.id,
            label=cut(printable(thread.name or thread.preview or "(no messages yet)"), 50),
            detail=f"{when:<11} {thread.id} · {thread.model}{' · not written by you' if thread.foreign else ''}",
            current=thread.id == self._session.talk.thread_id,
        )

    async def _resume(self, rest: str) -> None:
        if rest:
            await self._session.open(rest)
        else:
            await self._threads("")

    def _thread_id(self) -> str:
        if not self._session.talk.thread_id:
            self._app.note("This thread is empty: send a message first", meaning="warn")
        return self._session.talk.thread_id

    async def _fork(self, _: str) -> None:
        if thread_id := self._thread_id():
            await self._session.open(thread_id, fork=True)
            self._app.note("This is a copy of the thread. The original stays as it is")

    async def _rename(self, rest: str) -> None:
        if thread_id := self._thread_id():
            name = rest or await self._app.push_screen_wait(Line("Name of the thread", self._session.talk.title))
            if name:
                await self._session.connected.rename_thread(thread_id, name)

    async def _archive(self, _: str) -> None:
        if thread_id := self._thread_id():
            await self._session.connected.archive_thread(thread_id)
            await self._session.start_new_thread()
            self._app.note("Archived. To list archived threads: hames threads --archived")

    # -- terms

    async def _model(self, rest: str) -> None:
        session = self._session
        if not rest:
            models = sorted(session.models, key=lambda model: MODEL_GROUPS.index(model_group(model)))
            choices = [
                PickerChoice(
                    id=model.id,
                    label=model.id,
                    detail=described_model(model),
                    current=model.id == session.talk.model,
                    group=model_group(model),
                )
                for model in models
            ]
            rest = await self._picked("Model", choices)
        if rest:
            await session.change(model=rest)

    async def _options(self, _: str) -> None:
        """Every option the same way, whatever it means."""
        session = self._session
        client, talk = session.connected, session.talk
        while True:
            options = await client.config_options(talk.thread_id or None)
            offered = [option for option in options if not option.model_ids or talk.model in option.model_ids]
            choices = [
                PickerChoice(
                    id=option.id, label=option.name, detail=f"{self._value(option)} · {option.description or ''}"
                )
                for option in offered
            ]
            if not (picked := await self._picked("Options", choices)):
                return
            await self._choose(next(option for option in offered if option.id == picked))

    def _value(self, option: m.ConfigOption) -> str:
        value = self._session.talk.config.get(option.id, option.value)
        return next((choice.name for choice in option.options if choice.id == value), value)

    async def _choose(self, option: m.ConfigOption) -> None:
        session = self._session
        value = session.talk.config.get(option.id, option.value)
        choices = [
            PickerChoice(id=one.id, label=one.name, detail=one.description or "", current=one.id == value)
            for one in option.options
        ]
        if picked := await self._picked(option.name, choices):
            await session.set_option(option.id, picked)

    async def _plan(self, rest: str) -> None:
        """On or off; with more words, on, and they are the message."""
        session = self._session
        planning = session.talk.config.get(AGENT_OPTION) == "plan"
        mode = "code" if rest == "off" or (planning and not rest) else "plan"
        await session.set_mode(mode)
        later = " from the next message on" if session.talk.running else ""
        if mode == "plan":
            self._app.note(
                f"Plan mode is on{later}: the agent reads and plans, and changes nothing. "
                "/go starts the work, /plan turns it off"
            )
        else:
            self._app.note(f"Plan mode is off{later}")
        if rest not in ("", "on", "off"):
            await session.send(rest, queued=False)

    async def _go(self, rest: str) -> None:
        """Out of plan mode, and the plan is carried out. The policy stays what it was."""
        session = self._session
        if session.talk.config.get(AGENT_OPTION) != "plan":
            self._app.note("/go leaves plan mode and starts the work; plan mode is not on", meaning="warn")
            return
        await session.set_mode("code")
        name, means = shown_mode("code", session.talk.policy)
        self._app.note(f"Plan mode is off. Mode: {name} ({means})" if name else f"Plan mode is off. Approvals: {means}")
        await session.send(f"{GO} {rest}".strip(), queued=session.talk.running)

    async def _mode(self, rest: str) -> None:
        await self._approvals(rest)

    async def _approvals(self, rest: str) -> None:
        if not rest:
            talk = self._session.talk
            agent = talk.config.get(AGENT_OPTION, "code")
            current = modes.mode_of(agent, talk.policy) or talk.policy
            choices = [
                PickerChoice(id=name, label=f"{label} · {name}", detail=detail, current=name == current)
                for name, (label, detail) in APPROVAL_MODES.items()
            ]
            rest = await self._picked("Mode", choices)
        policy = next((name for name in get_args(ApprovalPolicy) if name == rest), None)
        mode = next((mode for name, mode in modes.MODES.items() if name == rest), None)
        if mode is not None:
            await self._session.change_mode(mode.agent, mode.approval_policy)
        elif policy is not None:
            await self._session.change_mode("code", policy)
        elif rest:
            names = ", ".join(APPROVAL_MODES)
            self._app.note(f"Unknown mode {rest!r}. Choose one of: {names}", meaning="warn")

    async def _sandbox(self, rest: str) -> None:
        now = self._session.talk.sandbox
        if not rest:
            details = dict(SANDBOX_DETAILS)
            if roots := writable_roots(now):
                details["workspaceWrite"] += f". Also writable: {', '.join(roots)}"
            choices = [
                PickerChoice(
                    id=name, label=f"{words} · {name}", detail=details[name], current=name == sandbox_name(now)
                )
                for name, words in SANDBOXES.items()
            ]
            rest = await self._picked("Sandbox", choices)
        if rest in SANDBOXES:
            await self._session.change(sandbox=sandbox_of(rest, now))
        elif rest:
            self._app.note(f"Unknown sandbox {rest!r}. Choose one of: {', '.join(SANDBOXES)}", meaning="warn")

    async def _theme(self, rest: str) -> None:
        app = self._app
        if not rest:
            names = {THEMES.get(name, name): name for name in (*THEMES, *app.available_themes)}
            choices = [PickerChoice(id=name, label=label, current=name == app.theme) for name, label in names.items()]
            rest = await self._picked("Theme", choices)
        name = THEMES.get(rest, rest)
        if name in app.available_themes:
            app.theme = name
        elif rest:
            app.note(f"Unknown theme {rest!r}. Choose light or dark; /theme lists more", meaning="warn")

    # -- turns

    async def _context(self, _: str) -> None:
        if thread_id := self._thread_id():
            self._app.note(context_text(await self._session.connected.context(thread_id)))

    async def _compact(self, _: str) -> None:
        if thread_id := self._thread_id():
            await self._session.connected.compact_thread(thread_id)

    async def _review(self, rest: str) -> None:
        reviewer, rest = split_reviewer(rest)
        await self._session.start_review(m.Custom(instructions=rest) if rest else m.UncommittedChanges(), reviewer)

    async def _init(self, rest: str) -> None:
        await self._session.send(f"{INIT}\n\n{rest}".strip(), queued=False, typed="")

    async def _queue(self, rest: str) -> None:
        if rest:
            await self._session.send(rest, queued=True)
        else:
            self._app.note("What should be queued? For example: /queue now run the tests", meaning="warn")

    async def _drop(self, rest: str) -> None:
        talk = self._session.talk
        numbers = [int(rest)] if rest.isdecimal() else [] if rest else list(range(1, len(talk.waiting) + 1))
        dropped = [talk.waiting[number - 1] for number in numbers if 1 <= number <= len(talk.waiting)]
        for prompt in dropped:
            await self._session.connected.drop_prompt(talk.thread_id, prompt.id)
        if not dropped:
            none = f"No queued message {rest!r}" if talk.waiting else "No messages are queued"
            self._app.note(none, meaning="warn")

    # -- files

    async def _diff(self, _: str) -> None:
        app = self._app
        block = WorkspaceChanges(FileChangeItem(id="", changes=[], status="inProgress"))
        app.show_blocks([block])
        app.transcript.to_end()
        try:
            changes = await uncommitted_changes(Path(self._session.talk.cwd or Path.cwd()))
            block.finish(FileChangeItem(id="", changes=changes, status="completed"))
        except NoDiff as why:
            block.fail(str(why))
        app.show_change(block)

    async def _undo(self, rest: str) -> None:
        if thread_id := self._thread_id():
            given = m.ThreadUndoParams(thread_id=thread_id, paths=rest.split())
            self._app.note(await undo(self._session.connected, given, self._picked, self._session.talk))

    async def _redo(self, rest: str) -> None:
        if thread_id := self._thread_id():
            given = m.ThreadUndoParams(thread_id=thread_id, paths=rest.split(), redo=True)
            self._app.note(await undo(self._session.connected, given, self._picked, self._session.talk))

    async def _rewind(self, _: str) -> None:
        if thread_id := self._thread_id():
            chosen = await choose_rewind(await self._session.connected.read_thread(thread_id), self._picked)
            if chosen is None:
                return
            if chosen.files:
                given = m.ThreadUndoParams(thread_id=thread_id, turn_id=chosen.turn_id, later=True)
                self._app.note(await undo(self._session.connected, given, self._picked, self._session.talk))
            if chosen.conversation:
                if chosen.turn_before:
                    await self._session.open(thread_id, fork=True, last_turn_id=chosen.turn_before)
                    self._app.note("This is a copy of the thread up to there. The original stays as it is")
                else:
                    await self._session.start_new_thread()
                self._app.composer.put(chosen.prompt)

    async def _worktree(self, rest: str) -> None:
        if said := await use_worktree(self._session, rest, self._picked, self._line):
            self._app.note(said)

    async def _mcp(self, _: str) -> None:
        self._app.note(self._app.mcp_servers(await self._session.mcp_states()))

    async def _ps(self, number: str) -> None:
        client, thread_id = self._session.connected, self._session.talk.thread_id
        if number and not number.isdecimal():
            self._app.note("/ps lists the background processes, /ps NUMBER ends one", meaning="warn")
            return
        if number and thread_id:
            found = await client.end_process(thread_id, int(number))
        else:
            found = await client.processes(thread_id) if thread_id else []
        self._app.note("\n".join(map(_process_line, found)) or "The agent has started no background process")

    async def _editor(self, _: str) -> None:
        self._app.edit_message()

    # -- looking back

    async def _history(self, _: str) -> None:
        prompts = list(dict.fromkeys(reversed(self._app.remembered.prompts)))
        choices = [
            PickerChoice(id=str(number), label=prompt.replace("\n", " ")) for number, prompt in enumerate(prompts)
        ]
        if picked := await self._picked("Earlier messages", choices):
            self._app.composer.put(prompts[int(picked)])

    async def _copy(self, _: str) -> None:
        if thread_id := self._thread_id():
            thread = await self._session.connected.read_thread(thread_id)
            said = next((words for turn in reversed(thread.turns) if (words := text_of(turn))), "")
            self._app.copy_to_clipboard(printable(said))
            self._app.notify(f"Copied {len(said)} characters", markup=False)

    def _mode_words(self) -> str:
        talk = self._session.talk
        name = modes.mode_of(talk.mode, talk.policy)
        return f"{name}: {modes.MODES[name].words}" if name else f"{talk.mode}: {MODE_DETAILS.get(talk.mode, '')}"

    async def _status(self, _: str) -> None:
        talk = self._session.talk
        total = talk.spent.total
        sandbox = shown_sandbox(effective_sandbox(talk))
        if talk.mode in MODES:
            sandbox += f" ({MODES[talk.mode].lower()}; otherwise {shown_sandbox(talk.sandbox)})"
        else:
            roots = writable_roots(talk.sandbox)
            sandbox += f": {', '.join(visible(root) for root in roots)}" if roots else ""
            sandbox += f" ({sandbox_name(talk.sandbox)})"
        lines = [
            f"thread     {talk.thread_id or 'not started'}",
            f"model      {talk.model}",
            f"mode       {self._mode_words()}",
            f"approvals  {POLICIES[talk.policy].lower()} ({talk.policy})",
            f"sandbox    {sandbox}",
            f"directory  {talk.cwd or Path.cwd()}",
            f"notes      {', '.join(talk.notes) or ('none' if talk.thread_id else 'read with the first prompt')}",
        ]
        if total is not None:
            cached = f" ({tokens(total.cached_input_tokens)} of them cached)" if total.cached_input_tokens else ""
            lines.append(f"tokens     {tokens(total.input_tokens)} in{cached}, {tokens(total.output_tokens)} out")
        if talk.spent.window:
            lines.append(f"context    {tokens(talk.spent.context)} of {tokens(talk.spent.window)} tokens used")
        lines.append(f"cost       {self._cost()}")
        lines += [f"budget     {words}" for words in await self._session.budgets()]
        if unread := other_agents_files(Path(talk.cwd or Path.cwd())):
            lines.append(f"unread     {unread}")
        self._app.note("\n".join(lines))

    def _cost(self) -> str:
        talk = self._session.talk
        if talk.spent.total is None:
            return "nothing yet"
        if (cost := talk.cost) is not None:
            return f"${cost:.4f}"
        models = ", ".join(sorted(talk.spent.without_price(talk.prices))) or talk.model
        return f"unknown: no price is known for {visible(models)}"
