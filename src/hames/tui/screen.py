"""The layout of the terminal's screen, and how what happens in a session is shown on it. `app` has the keys."""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from textual import events, work
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.widget import Widget

from hames.client.appserver.link import AppServerError, ConnectionClosed
from hames.domain.display import printable, visible
from hames.protocols.flint import messages as m
from hames.tui import editor, markdown
from hames.tui.approval import ApprovalPanel, TypedLetters
from hames.tui.blocks.block import Block
from hames.tui.blocks.messages import NoteBlock
from hames.tui.completing import list_files
from hames.tui.composer import Composer, Suggestions
from hames.tui.conversation import Conversation
from hames.tui.help import help_text
from hames.tui.palette import DARK, LIGHT, palette
from hames.tui.pickers import Help
from hames.tui.prompt_history import PromptHistory
from hames.tui.session import NewThreadSettings, Session
from hames.tui.status import Activity, Header, StatusLine
from hames.tui.transcript import Transcript
from hames.tui.welcome import Welcome

QUIET_SECONDS = 0.7
"""A question takes the keyboard only after this long without typing."""
LONG_TURN_MS = 10_000
"""A turn that took longer rings the bell at its end."""


class ConversationScreen(App[int]):
    """Implements `session.View`."""

    # Notices come at the top: the message box and what it offers are at the bottom.
    CSS = """
    ToastRack { dock: top; align: right top; }
    Toast { padding: 0 1; }
    """

    def __init__(self, cwd: Path, new_settings: NewThreadSettings, *, state_dir: Path | None, dark: bool) -> None:
        super().__init__()
        self.cwd = cwd
        self.session = Session(self, cwd=cwd, new_settings=new_settings)
        self.remembered = PromptHistory(state_dir)
        self._laid_out = False
        self.mcp_servers: Callable[[Mapping[str, str]], str] = lambda _: "No MCP servers are configured"
        """Describes those that are configured, with the states it is given."""
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name if dark else LIGHT.name
        self.palette = palette(self.current_theme.to_color_system().generate(), dark=dark)

    def compose(self) -> ComposeResult:
        yield Header(self.palette, _home(self.cwd))
        self.transcript = Transcript(self.palette)
        yield self.transcript
        yield Activity(self.palette)
        yield ApprovalPanel(self.palette)
        suggestions = Suggestions()
        yield suggestions
        yield Composer(suggestions, self.remembered)
        yield StatusLine(self.palette)

    transcript: Transcript
    """Asked for with every piece of an answer, so it is not looked up."""

    @property
    def composer(self) -> Composer:
        return self.query_one(Composer)

    @property
    def talk(self) -> Conversation:
        return self.session.talk

    def _focus_keyboard(self) -> None:
        """Gives the keyboard to the message box or the open question, whatever was clicked before."""
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
        """Overrides Textual: Tab must not take the focus away from the message box."""

    def action_focus_previous(self) -> None:
        """Overrides Textual, as above."""

    async def report_failure(self, doing: Awaitable[None]) -> bool:
        """Whether it went well; if not, it is said."""
        try:
            await doing
        except (AppServerError, ConnectionClosed) as failure:
            self.note(str(failure), meaning="bad")
            return False
        return True

    @work
    async def _unfollow(self, thread_id: str) -> None:
        await self.report_failure(self.session.connected.unsubscribe(thread_id))

    @work(thread=True, exit_on_error=False, exclusive=True, group="files")
    def _find_files(self) -> None:
        markdown.load()
        found = list_files(self.cwd)
        self.call_from_thread(setattr, self.composer, "files", found)

    def show_thread(self, before: Conversation) -> None:
        self.transcript.clear()
        if before.thread_id and not before.running:
            self._unfollow(before.thread_id)
        self.show_status()
        if self.session.asked:
            # Shown again: the question may belong to the thread that is now on the screen.
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
        self.transcript.append(NoteBlock(words, meaning=meaning))

    def show_question(self) -> None:
        """The oldest question that waits for an answer, or none."""
        panel, asked = self.query_one(ApprovalPanel), self.session.asked
        self.query_one(Activity).asking = any(one.thread_id == self.talk.thread_id for one in asked)
        if not asked:
            if panel.asked is not None:
                panel.dismiss()
                self.composer.display = True
                self.composer.focus()
        elif panel.asked is not asked[0]:
            elsewhere = "" if asked[0].thread_id == self.talk.thread_id else f"thread {asked[0].thread_id}"
            panel.ask(asked[0], more=len(asked) - 1, elsewhere=elsewhere)
            self.bell()
            self._take_keys()

    def _take_keys(self) -> None:
        """Moves the keyboard to the question once the user pauses typing."""
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

    def on_typed_letters(self, message: TypedLetters) -> None:
        """Puts letters typed at a question into the message box; the question waits until the user pauses."""
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

    def action_help(self) -> None:
        self.push_screen(Help(lambda width: help_text(self.palette, width)))

    def edit_message(self) -> None:
        """In the user's own editor, which has the terminal for as long as it runs."""
        try:
            command = editor.editor_command()
            with self.suspend():
                text = editor.edit_text(command, self.composer.expanded)
        except editor.NoEditor as why:
            self.note(str(why), meaning="warn")
        except SuspendNotSupported:
            self.note("An editor cannot be opened in this terminal", meaning="warn")
        else:
            self.composer.put(text)

    def show_status(self) -> None:
        if not self._laid_out:
            return
        talk = self.talk
        self.composer.running = talk.running
        self.query_one(StatusLine).show(talk)
        self.query_one(Activity).follow(talk)
        self.query_one(Header).show(talk.title)

    def _recolour(self) -> None:
        theme = self.current_theme
        self.palette = palette(theme.to_color_system().generate(), dark=theme.dark)
        for part in (Activity, ApprovalPanel, Header, StatusLine):
            self.query_one(part).palette = self.palette
        self.query_one(Header).refresh()
        self.transcript.repaint(self.palette)
        self.show_status()


def _home(path: Path) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - a home that is not known stays as it is
    text = str(path)
    return visible(f"~{text[len(home) :]}" if text.startswith(home) and home != "/" else text)
