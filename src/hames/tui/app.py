"""The terminal's screen: a client of an app server like any other.

Everything on it comes from the client's events; everything it does is one of the client's requests. The message box
has the keyboard whatever is clicked, except while an approval or a list is open.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio
from textual import events, work
from textual.app import SuspendNotSupported
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.widgets import OptionList

from hames.domain.display import printable
from hames.tui.approval import Answered
from hames.tui.commands import Commands
from hames.tui.composer import Composer, Suggestions
from hames.tui.conversation import AGENT_OPTION
from hames.tui.first_frame import FirstFrame
from hames.tui.help import BARE_COMMANDS, COMMANDS
from hames.tui.keys import BINDINGS
from hames.tui.modes import next_mode
from hames.tui.pickers import Help, Picker
from hames.tui.screen import ConversationScreen
from hames.tui.server_process import OpenConnection, Unreachable
from hames.tui.session import NewThreadSettings
from hames.tui.shell_commands import UserCommands
from hames.tui.terminal_driver import ENDING, TerminalDriver, end_anyway, stop_until_foreground
from hames.tui.text import shown_input

QUIT_SECONDS = 2.0
TIDY_SECONDS = 30.0
REST_SECONDS = 2.0


class HamesApp(ConversationScreen):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = BINDINGS

    def __init__(
        self,
        reach: OpenConnection,
        *,
        cwd: Path,
        state_dir: Path | None = None,
        dark: bool = True,
        resume: str | None = None,
        prompt: str = "",
        new_settings: NewThreadSettings | None = None,
        check: Callable[[], str] | None = None,
        mcp_servers: Callable[[Mapping[str, str]], str] | None = None,
        first_frame: FirstFrame | None = None,
        warnings: Sequence[str] = (),
        notice: Callable[[], str] | None = None,
    ) -> None:
        """`resume` is a thread's id, or `last`; `prompt` is sent as soon as there is somebody to hear it.

        `new_settings` are for new threads; `check` says, in a thread of its own, why the first prompt would fail;
        `mcp_servers` describes those that are configured, with the states it is given;
        `first_frame` is on the screen already;
        `warnings` are shown at once; `notice` gives one more sentence, in a thread of its own.
        """
        super().__init__(cwd, new_settings or NewThreadSettings(), state_dir=state_dir, dark=dark)
        self.first_frame = first_frame
        self._reach = reach
        self._resume = resume
        self._prompt = prompt
        self._check = check
        self.mcp_servers = mcp_servers or self.mcp_servers
        self._user_commands = UserCommands(lambda ran: self.session.outputs.append(ran))  # noqa: PLW0108 - the list is replaced
        self._warnings = warnings
        self._notice = notice
        self.session.known = frozenset(warnings)
        self.unreachable: Unreachable | None = None
        """Why the server could not be reached at all."""
        self._leaving_at = 0.0
        self._touched = 0.0
        self._met = False
        self._changing_mode = anyio.Lock()
        self._begun = anyio.Event()
        """Set once the connection is open or has failed."""
        self.commands = Commands(self, self.session)

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
        self.show_status()
        self._converse()
        self._find_files()
        self.set_interval(TIDY_SECONDS, self._tidy)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent):
            self._touched = time.monotonic()
            if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
                self._focus_keyboard()
        await super().on_event(event)

    def _watch_signals(self) -> None:
        """Restores the terminal when a signal ends the process."""
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
            self.notify("There is no shell to return to, so Hames was not suspended", markup=False)

    def _tidy(self) -> None:
        """Collects garbage while idle: it takes a tenth of a second, which would hold up streaming and keys."""
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
                        self.session.handle_event(event)
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
            self.show_status()

    @work
    async def _begin(self) -> None:
        async def begin() -> None:
            session = self.session
            await session.learn_models()
            if self._resume:
                await session.open(self._resume)
                await session.apply_new_settings()
            else:
                await session.start_new_thread()
            for warning in self._warnings:
                self.note(warning, meaning="warn")
            if self._notice is not None and (words := await anyio.to_thread.run_sync(self._notice)):
                self.note(words, meaning="warn")
            if self._check is not None and (hint := await anyio.to_thread.run_sync(self._check)):
                self.note(hint, meaning="warn")
                self._keep_prompt()
            elif self._prompt:
                await session.send(self._prompt, queued=False)

        if not await self.report_failure(begin()):
            self._keep_prompt()
        self._begun.set()

    def _keep_prompt(self) -> None:
        """Puts the prompt of the command line into the composer when it cannot be sent yet."""
        if self._prompt and not self.composer.text:
            self.composer.put(self._prompt)

    # -- questions

    @work
    async def on_answered(self, message: Answered) -> None:
        await self.report_failure(self.session.answer(message.asked, message.decision, message.word))
        self.show_question()

    # -- prompts and answers

    @work
    async def on_composer_sent(self, message: Composer.Sent) -> None:
        if message.typed.startswith("!"):
            if command := message.text.removeprefix("!").strip():
                await self._user_commands.run(command, Path(self.talk.cwd or self.cwd), self.transcript)
                self._find_files()
            else:
                self.note("Type a shell command after the exclamation mark, for example: !git status", meaning="warn")
            return
        if command := BARE_COMMANDS.get(message.typed.strip().lower()):
            await self.report_failure(self.commands.run(command))
            return
        if self.session.client is None and self._begun.is_set():
            # The server died: start another one and reopen the thread there.
            self._begun, self._resume, self._prompt = anyio.Event(), self.talk.thread_id or None, ""
            self._converse()
        await self._begun.wait()  # somebody may type faster than an agent starts
        typed = message.typed.strip()
        if typed.startswith("/") and not typed.startswith("//"):
            await self.report_failure(self.commands.run(message.text))
            return
        sending = self.session.send(message.text, queued=message.queued, typed=message.typed)
        if not await self.report_failure(sending) and not self.composer.text:
            self.composer.put(message.text)

    # -- keys

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
            await self.report_failure(self.commands.run(f"/{name}"))

    @work
    async def action_policy(self) -> None:
        async with self._changing_mode:  # two quick presses are two steps
            agent, policy = next_mode(self.talk.config.get(AGENT_OPTION, "code"), self.talk.policy)
            await self.report_failure(self.session.change_mode(agent, policy))

    def action_interrupt(self) -> None:
        if self._user_commands.is_running:
            self._user_commands.stop_newest()
        elif self.talk.running:
            self._interrupt()
        elif not self.transcript.following:
            self.transcript.to_end()

    def on_composer_escaped(self) -> None:
        self.action_interrupt()

    @work
    async def _interrupt(self) -> None:
        await self.report_failure(self.session.interrupt())

    @work
    async def action_take_back(self) -> None:
        """The prompt that waits last, back into the composer."""
        if self.talk.waiting and not self.composer.text:
            prompt = self.talk.waiting[-1]
            await self.report_failure(self.session.connected.drop_prompt(self.talk.thread_id, prompt.id))
            self.composer.put(shown_input(prompt.input[:1]))

    def action_stop(self) -> None:
        if chosen := self.screen.get_selected_text():
            self.copy_to_clipboard(printable(chosen))
            self.screen.clear_selection()
        elif not self.is_screen_top:
            self.pop_screen()
        elif self.composer.text:
            self.composer.put("")
        elif self._user_commands.is_running:
            self._user_commands.stop_newest()
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

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if isinstance(event.option_list, Suggestions):
            self.composer.complete_with(event.option_list.names[event.option_index])

    def on_composer_help_wanted(self) -> None:
        self.action_help()

    def on_composer_editor_wanted(self) -> None:
        self.edit_message()
