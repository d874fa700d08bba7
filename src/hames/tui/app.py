"""The terminal's screen: a client of an app server like any other.

Everything on it comes from the client's events; everything it does is one of the client's requests. The message box
has the keyboard whatever is clicked, except while an approval or a list is open.
"""

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from textual import events, work
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import OptionList

from hames.client.appserver_link import AppServerError, ConnectionClosed
from hames.domain.display import printable, visible
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.tui import editor, markdown, user_shell
from hames.tui.approval import Answered, ApprovalPanel, Overheard
from hames.tui.block import Block
from hames.tui.blocks_done import UserCommand
from hames.tui.blocks_said import Note
from hames.tui.commands import BARE_COMMANDS, COMMANDS, Commands, help_text
from hames.tui.completing import files_below
from hames.tui.composer import Composer, Suggestions
from hames.tui.conversation import AGENT_OPTION, Conversation
from hames.tui.first_frame import FirstFrame
from hames.tui.modes import next_mode
from hames.tui.palette import DARK, LIGHT, palette
from hames.tui.pickers import Help, Picker
from hames.tui.reach import Reach, Unreachable
from hames.tui.remembered import Remembered
from hames.tui.session import Session, Wishes
from hames.tui.status import Activity, Header, Terms
from hames.tui.terminal_driver import ENDING, TerminalDriver, end_anyway, stop_until_foreground
from hames.tui.text import shown_input
from hames.tui.transcript import Transcript
from hames.tui.welcome import Welcome

QUIET_SECONDS = 0.7
"""How long somebody must have stopped typing before a question takes the keys."""
QUIT_SECONDS = 2.0
LONG_TURN_MS = 10_000
"""After a longer one a bell calls back whoever went for coffee."""


TIDY_SECONDS = 30.0
REST_SECONDS = 2.0


class HamesApp(App[int]):
    # Notices come at the top: the message box and what it offers are at the bottom.
    CSS = """
    ToastRack { dock: top; align: right top; }
    Toast { padding: 0 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [
        Binding("shift+tab", "policy", "policy", priority=True, show=False),
        Binding("ctrl+p", "command('plan')", "plan mode", priority=True, show=False),
        Binding("ctrl+z", "suspend_process", "suspend", priority=True, show=False),
        Binding("ctrl+o", "fold", "fold", priority=True, show=False),
        Binding("ctrl+t", "command('threads')", "threads", priority=True, show=False),
        Binding("ctrl+l", "command('model')", "model", priority=True, show=False),
        Binding("ctrl+g", "command('options')", "options", priority=True, show=False),
        Binding("ctrl+n", "command('new')", "new", priority=True, show=False),
        Binding("ctrl+r", "command('history')", "history", priority=True, show=False),
        Binding("f1", "help", "help", priority=True, show=False),
        Binding("pageup", "scroll(-1)", "up", priority=True, show=False),
        Binding("pagedown", "scroll(1)", "down", priority=True, show=False),
        Binding("ctrl+home", "scroll(-1000000)", "top", priority=True, show=False),
        Binding("ctrl+end", "scroll(1000000)", "end", priority=True, show=False),
        Binding("alt+up", "take_back", "take back", priority=True, show=False),
        Binding("ctrl+c", "stop", "stop", priority=True, show=False),
        Binding("ctrl+d", "leave", "quit", priority=True, show=False),
        Binding("ctrl+q", "quit", "quit", priority=True, show=False),
        Binding("escape", "interrupt", "stop the turn", show=False),
    ]

    def __init__(
        self,
        reach: Reach,
        *,
        cwd: Path,
        state_dir: Path | None = None,
        dark: bool = True,
        resume: str | None = None,
        prompt: str = "",
        wishes: Wishes | None = None,
        check: Callable[[], str] | None = None,
        mcp_servers: Callable[[Mapping[str, str]], str] | None = None,
        first_frame: FirstFrame | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        """`resume` is a thread's id, or `last`; `prompt` is sent as soon as there is somebody to hear it.

        `wishes` are for new threads; `check` says, in a thread of its own, why the first prompt would fail;
        `mcp_servers` describes those that are configured, with the states it is given;
        `first_frame` is on the screen already;
        `warnings` are shown at once.
        """
        super().__init__()
        self.first_frame = first_frame
        self.cwd = cwd
        self.session = Session(self, cwd=cwd, wishes=wishes or Wishes())
        self.remembered = Remembered(state_dir)
        self._reach = reach
        self._resume = resume
        self._prompt = prompt
        self._check = check
        self._mcp_servers = mcp_servers
        self._user_commands: list[anyio.CancelScope] = []
        """The user's own commands that run, the newest last."""
        self._warnings = warnings
        self.session.known = frozenset(warnings)
        self.unreachable: Unreachable | None = None
        """Why there never was an agent to talk to."""
        self._leaving_at = 0.0
        self._touched = 0.0
        self._laid_out = False
        self._met = False
        self._changing_mode = anyio.Lock()
        self._begun = anyio.Event()
        """Set once there is somebody to talk to, or certainly nobody."""
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name if dark else LIGHT.name
        self.palette = palette(self.current_theme.to_color_system().generate(), dark=dark)
        self.commands = Commands(self, self.session)

    def compose(self) -> ComposeResult:
        yield Header(self.palette, _home(self.cwd))
        self.transcript = Transcript(self.palette)
        yield self.transcript
        yield Activity(self.palette)
        yield ApprovalPanel(self.palette)
        suggestions = Suggestions()
        yield suggestions
        yield Composer(suggestions, self.remembered)
        yield Terms(self.palette)

    transcript: Transcript
    """Asked for with every piece of an answer, so it is not looked up."""

    @property
    def composer(self) -> Composer:
        return self.query_one(Composer)

    @property
    def talk(self) -> Conversation:
        return self.session.talk

    def get_driver_class(self) -> type[Driver]:
        found = super().get_driver_class()
        return TerminalDriver if found is LinuxDriver else found

    def on_mount(self) -> None:
        self._watch_signals()
        self.theme_changed_signal.subscribe(self, lambda _: self._recolour())
        self._laid_out = True
        self.composer.commands = dict(COMMANDS)
        self.composer.focus()
        self.show_welcome()
        self.show_terms()
        self._converse()
        self._find_files()
        self.set_interval(TIDY_SECONDS, self._tidy)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent):
            self._touched = time.monotonic()
            if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
                self._focus_keyboard()
        await super().on_event(event)

    def _focus_keyboard(self) -> None:
        """A key goes to whoever should have it, whatever was clicked before."""
        if not self._laid_out or not self.is_screen_top:
            return
        asking = not self.composer.display
        owner: Widget = self.query_one(ApprovalPanel).keyboard if asking else self.composer
        if self.focused is not owner:
            self.screen.set_focus(owner, scroll_visible=False)

    async def on_paste(self, event: events.Paste) -> None:
        """What was pasted while an approval is open: it answers nothing, and is in the message box afterwards."""
        if self.is_screen_top and not self.composer.display:
            self.composer.paste_text(printable(event.text))

    def action_focus_next(self) -> None:
        """Tab moves the focus nowhere: letters would go to nobody."""

    def action_focus_previous(self) -> None:
        """As Tab."""

    def _watch_signals(self) -> None:
        """Told to end, it leaves the terminal as it was."""
        if isinstance(self._driver, TerminalDriver):
            loop = asyncio.get_running_loop()
            for number in ENDING:
                loop.add_signal_handler(number, self._end_by_signal, number)

    def _end_by_signal(self, number: int) -> None:
        end_anyway(number)
        self.exit(return_code=128 + number)

    def action_suspend_process(self) -> None:
        try:
            with self.suspend():
                stopped = stop_until_foreground()
        except SuspendNotSupported:
            return
        if not stopped:
            self.notify("No shell to return to, so Hames goes on", markup=False)

    def _tidy(self) -> None:
        """Looking through everything takes a tenth of a second, so it is not done while words pour in or keys come."""
        if not self.talk.running and time.monotonic() - self._touched > REST_SECONDS:
            gc.collect()

    # -- the connection

    @work(exit_on_error=True)
    async def _converse(self) -> None:
        try:
            async with self._reach() as client:
                self.session.client = client
                self._met = True
                with client.events() as heard:
                    self._begin()
                    async for event in heard:
                        self.session.hear(event)
        except Unreachable as failure:
            if not self._met:
                # Nothing can be done here, and the shell is the place to do something about it.
                self.unreachable = failure
                self.exit(return_code=failure.code)
            self.note(str(failure), meaning="bad")
        self.session.client = None
        self._begun.set()
        if self.talk.running:
            self.talk.turn_id = ""
            self.show_terms()

    @work
    async def _begin(self) -> None:
        async def begin() -> None:
            session = self.session
            await session.learn_models()
            if self._resume:
                await session.open(self._resume)
                await session.apply_wishes()
            else:
                await session.fresh()
            for warning in self._warnings:
                self.note(warning, meaning="warn")
            if self._check is not None and (hint := await anyio.to_thread.run_sync(self._check)):
                self.note(hint, meaning="warn")
                self._keep_prompt()
            elif self._prompt:
                await session.send(self._prompt, queued=False)

        if not await self.tried(begin()):
            self._keep_prompt()
        self._begun.set()

    def _keep_prompt(self) -> None:
        """A prompt of the command line that cannot be sent yet waits in the composer."""
        if self._prompt and not self.composer.text:
            self.composer.put(self._prompt)

    async def tried(self, doing: Awaitable[None]) -> bool:
        """Whether it went well; if not, it is said."""
        try:
            await doing
        except (AppServerError, ConnectionClosed) as failure:
            self.note(str(failure), meaning="bad")
            return False
        return True

    @work
    async def _unfollow(self, thread_id: str) -> None:
        await self.tried(self.session.connected.unsubscribe(thread_id))

    @work(thread=True, exit_on_error=False, exclusive=True, group="files")
    def _find_files(self) -> None:
        markdown.load()
        found = files_below(self.cwd)
        self.call_from_thread(setattr, self.composer, "files", found)

    # -- what the session shows

    def show_thread(self, before: Conversation) -> None:
        self.transcript.clear()
        if before.thread_id and not before.running:
            self._unfollow(before.thread_id)
        self.show_terms()
        if self.session.asked:
            # The same question, told apart from what is on the screen now.
            self.query_one(ApprovalPanel).asked = None
            self.show_question()

    def show_welcome(self) -> None:
        self.transcript.append(Welcome(self.cwd))

    def show_blocks(self, blocks: Iterable[Block]) -> None:
        self.transcript.extend(blocks)

    def show_change(self, block: Block) -> None:
        self.transcript.changed(block)

    def show_end(self) -> None:
        self.transcript.to_end()

    def show_ending(self, turn: m.Turn) -> None:
        self._find_files()
        if (turn.duration_ms or 0) > LONG_TURN_MS:
            self.bell()

    def note(self, words: str, *, meaning: str = "quiet") -> None:
        self.transcript.append(Note(words, meaning=meaning))

    # -- questions

    def show_question(self) -> None:
        panel, asked = self.query_one(ApprovalPanel), self.session.asked
        self.query_one(Activity).asking = any(one.thread_id == self.talk.thread_id for one in asked)
        if not asked:
            if panel.asked is not None:
                panel.dismiss()
                self.composer.display = True
                self.composer.focus()
            return
        first = asked[0]
        if panel.asked is first:
            return
        elsewhere = "" if first.thread_id == self.talk.thread_id else f"thread {first.thread_id}"
        panel.ask(first, more=len(asked) - 1, elsewhere=elsewhere)
        self.bell()
        self._take_keys()

    def _take_keys(self) -> None:
        """Somebody in the middle of a word keeps the keys until they pause."""
        panel = self.query_one(ApprovalPanel)
        if panel.asked is None or not self.composer.display:
            return
        if not self.is_screen_top:
            self.set_timer(QUIET_SECONDS, self._take_keys)
            return
        left = self.composer.typed_at + QUIET_SECONDS - time.monotonic()
        if self.composer.text and left > 0:
            self.set_timer(left, self._take_keys)
        else:
            self.composer.display = False
            panel.listen()

    def on_overheard(self, message: Overheard) -> None:
        """Somebody types: the message box gets the letters, and the question waits until they pause."""
        composer = self.composer
        composer.display = True
        composer.focus()
        composer.insert(message.text, composer.document.end)
        composer.move_cursor(composer.document.end)
        composer.typed_at = time.monotonic()
        self._take_keys()

    @property
    def is_screen_top(self) -> bool:
        return len(self.screen_stack) == 1

    @work
    async def on_answered(self, message: Answered) -> None:
        await self.tried(self.session.answer(message.asked, message.decision, message.word))
        self.show_question()

    # -- what is said

    @work
    async def on_composer_sent(self, message: Composer.Sent) -> None:
        if message.typed.startswith("!"):
            await self._run_user_command(message.text.removeprefix("!").strip())
            return
        if command := BARE_COMMANDS.get(message.typed.strip().lower()):
            await self.tried(self.commands.run(command))
            return
        if self.session.client is None and self._begun.is_set():
            # It died. Another one goes on where it stood: nothing that was seen is lost.
            self._begun, self._resume, self._prompt = anyio.Event(), self.talk.thread_id or None, ""
            self._converse()
        await self._begun.wait()  # somebody may type faster than an agent starts
        typed = message.typed.strip()
        if typed.startswith("/") and not typed.startswith("//"):
            await self.tried(self.commands.run(message.text))
            return
        sending = self.session.send(message.text, queued=message.queued, typed=message.typed)
        if not await self.tried(sending) and not self.composer.text:
            self.composer.put(message.text)

    async def _run_user_command(self, command: str) -> None:
        if not command:
            self.note("Type a shell command after the exclamation mark, for example: !git status", meaning="warn")
            return
        started = time.monotonic()
        cwd = Path(self.talk.cwd or self.cwd)
        item = wire.CommandExecutionItem(id="", command=command, cwd=str(cwd), status="inProgress")
        block = UserCommand(item)
        self.transcript.append(block)
        self.transcript.to_end()

        def show(text: str) -> None:
            block.add(text)
            self.transcript.changed(block)

        ran: user_shell.Ran | None = None
        with anyio.CancelScope() as scope:
            self._user_commands.append(scope)
            ran = await user_shell.run(command, cwd, show)
        self._user_commands.remove(scope)
        took = round((time.monotonic() - started) * 1000)
        block.end(ran, duration_ms=took)
        if ran is not None:
            self.session.outputs.append(ran)
        self.transcript.changed(block)
        self._find_files()

    # -- keys

    def action_help(self) -> None:
        self.push_screen(Help(lambda width: help_text(self.palette, width)))

    def action_fold(self) -> None:
        self.transcript.open_all(everything=not self.transcript.everything_open)

    def action_scroll(self, pages: int) -> None:
        if isinstance(self.screen, Picker | Help):
            self.screen.page(pages)
            return
        view = self.transcript
        view.scroll_relative(y=pages * max(1, view.size.height - 2), animate=False)

    @work
    async def action_command(self, name: str) -> None:
        if self.is_screen_top:
            await self.tried(self.commands.run(f"/{name}"))

    @work
    async def action_policy(self) -> None:
        async with self._changing_mode:  # two quick presses are two steps
            agent, policy = next_mode(self.talk.config.get(AGENT_OPTION, "code"), self.talk.policy)
            await self.tried(self.session.change_mode(agent, policy))

    def action_interrupt(self) -> None:
        if self._user_commands:
            self._user_commands[-1].cancel()
        elif self.talk.running:
            self._interrupt()
        elif not self.transcript.following:
            self.transcript.to_end()

    def on_composer_escaped(self) -> None:
        self.action_interrupt()

    @work
    async def _interrupt(self) -> None:
        await self.tried(self.session.interrupt())

    @work
    async def action_take_back(self) -> None:
        """The prompt that waits last, back into the composer."""
        if self.talk.waiting and not self.composer.text:
            prompt = self.talk.waiting[-1]
            await self.tried(self.session.connected.drop_prompt(self.talk.thread_id, prompt.id))
            self.composer.put(shown_input(prompt.input[:1]))

    def action_stop(self) -> None:
        if chosen := self.screen.get_selected_text():
            self.copy_to_clipboard(printable(chosen))
            self.screen.clear_selection()
        elif not self.is_screen_top:
            self.pop_screen()
        elif self.composer.text:
            self.composer.put("")
        elif self._user_commands:
            self._user_commands[-1].cancel()
        elif self.talk.running:
            self._interrupt()
        elif time.monotonic() - self._leaving_at < QUIT_SECONDS:
            self.exit(0)
        else:
            self._leaving_at = time.monotonic()
            self.notify("Press Ctrl+C again to close Hames", timeout=QUIT_SECONDS, markup=False)

    def action_leave(self) -> None:
        if not self.is_screen_top:
            self.pop_screen()
        elif self.composer.text:
            self.composer.action_delete_right()
        else:
            self.exit(0)

    # -- looks

    @property
    def theme_name(self) -> str:
        return self.theme

    def show_theme(self, name: str) -> None:
        self.theme = name

    def say(self, words: str) -> None:
        """A notice that goes away by itself."""
        self.notify(words, markup=False)

    def leave(self) -> None:
        self.exit(0)

    def mcp_servers(self, states: Mapping[str, str]) -> str:
        return self._mcp_servers(states) if self._mcp_servers is not None else "No MCP servers are configured"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if isinstance(event.option_list, Suggestions):
            self.composer.complete_with(event.option_list.names[event.option_index])

    def on_composer_help_wanted(self) -> None:
        self.action_help()

    def on_composer_editor_wanted(self) -> None:
        self.edit_message()

    def edit_message(self) -> None:
        """In the user's own editor, which has the terminal for as long as it runs."""
        try:
            command = editor.editor_command()
            with self.suspend():
                text = editor.edit_text(command, self.composer.expanded)
        except editor.NoEditor as why:
            self.note(str(why), meaning="warn")
        except SuspendNotSupported:
            self.note("This terminal cannot be handed to an editor", meaning="warn")
        else:
            self.composer.put(text)

    async def choose(self, screen: ModalScreen[Any]) -> Any:
        return await self.push_screen_wait(screen)

    def show_terms(self) -> None:
        if not self._laid_out:
            return
        talk = self.talk
        self.composer.running = talk.running
        self.query_one(Terms).show(talk)
        self.query_one(Activity).follow(talk)
        self.query_one(Header).show(talk.title)

    def _recolour(self) -> None:
        theme = self.current_theme
        self.palette = palette(theme.to_color_system().generate(), dark=theme.dark)
        for part in (Activity, ApprovalPanel, Header, Terms):
            self.query_one(part).palette = self.palette
        self.query_one(Header).refresh()
        self.transcript.repaint(self.palette)
        self.show_terms()


def _home(path: Path) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - a home that is not known stays as it is
    text = str(path)
    return visible(f"~{text[len(home) :]}" if text.startswith(home) and home != "/" else text)
