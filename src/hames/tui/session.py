"""The thread on the screen and the server behind it: what is asked of one and what is heard of the other.

No widget in sight: a `View` shows what changes.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import anyio
from msgspec.structs import replace

from hames.client.appserver import events as agent_events
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.link import AppServerError, ConnectionClosed, Filled
from hames.domain.value import Value
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import TextInput, UserInput
from hames.tui.blocks.block import Block
from hames.tui.completing import inputs
from hames.tui.conversation import AGENT_OPTION, Conversation, Prices
from hames.tui.user_shell import Ran, as_context

MCP_START_SECONDS = 20.0
MCP_LOOK_SECONDS = 0.2
ELICITATION_ENDINGS: dict[m.ApprovalWord, str] = {
    "accept": "You answered the MCP server",
    "acceptForSession": "You answered the MCP server",
    "acceptForProject": "You answered the MCP server",
    "cancel": "You left the question unanswered: it was asked by the MCP server",
    "decline": "You declined to answer the MCP server",
}


class SessionView(Protocol):
    """Where a session is seen."""

    def show_thread(self, before: Conversation) -> None:
        """Another thread is on the screen, and nothing of it is shown yet."""
        ...

    def show_welcome(self) -> None: ...
    def show_blocks(self, blocks: Iterable[Block]) -> None: ...
    def show_change(self, block: Block) -> None: ...
    def show_status(self) -> None: ...
    def show_question(self) -> None: ...
    def show_end(self) -> None:
        """Scrolls to the end: the user has sent something."""
        ...

    def show_ending(self, turn: m.Turn) -> None: ...
    def note(self, words: str, *, meaning: str = ...) -> None: ...


class NewThreadSettings(Value):
    """StatusLine of new threads; None leaves one to the server."""

    model: str | None = None
    policy: m.ApprovalPolicy | None = None
    sandbox: m.SandboxPolicy | None = None
    agent: str | None = None
    """The agent of the mode that was asked for."""
    default_policy: m.ApprovalPolicy | None = None
    """For threads that begin here, if nobody asked for a policy."""
    elsewhere: bool = False
    """The server is on another machine: a directory of this one says nothing there."""
    worktree: m.WorktreeOptions | None = None
    """For the first thread: it works in a git worktree of its own."""


class Session:
    def __init__(self, view: SessionView, *, cwd: Path, new_settings: NewThreadSettings) -> None:
        self.client: AppServerClient | None = None
        self.talk = Conversation()
        self.models: list[m.Model] = []
        self.asked: list[agent_events.ApprovalAsked] = []
        """Unanswered questions of all threads, the oldest first."""
        self.known: frozenset[str] = frozenset()
        """Warnings that are on the screen already."""
        self._view = view
        self._cwd = cwd
        self._new_settings = new_settings
        self._prices: Prices = {}
        self.worktree: m.WorktreeOptions | None = None
        """The thread on the screen begins in a git worktree of its own."""
        self._titled = ""
        self._opening = 0
        self.outputs: list[Ran] = []
        """What the user's own commands printed since the last message."""
        self._backlog: list[agent_events.AgentEvent] = []
        """Events that arrived while a thread was being opened."""

    @property
    def connected(self) -> AppServerClient:
        """Raises `ConnectionClosed` without a server."""
        if self.client is None:
            raise ConnectionClosed("not connected to the agent")
        return self.client

    # -- threads

    async def start_new_thread(self) -> None:
        """A thread that will exist with its first prompt."""
        config = await self.connected.read_config()
        talk = Conversation()
        talk.config = {option.id: option.value for option in config.options if option.id == AGENT_OPTION}
        talk.model = self._new_settings.model or config.model
        talk.cwd = "" if self._new_settings.elsewhere else str(self._cwd)
        new = self._new_settings
        talk.policy = new.policy or new.default_policy or config.approval_mode or config.approval_policy
        if new.agent is not None:
            talk.config[AGENT_OPTION] = new.agent
        talk.sandbox = self._new_settings.sandbox or config.sandbox_policy
        self.worktree, self._new_settings = new.worktree, replace(new, worktree=None)
        self._turn_to(talk)
        self._view.show_welcome()

    async def open(
        self,
        thread_id: str,
        *,
        fork: bool = False,
        last_turn_id: str | None = None,
        worktree: m.WorktreeOptions | None = None,
    ) -> None:
        """Show a thread that exists, or a fork of it, up to this turn."""
        client = self.connected
        if thread_id == "last":
            if (found := await client.latest_thread()) is None:
                await self.start_new_thread()
                self._view.note("No earlier thread found. This is a new one")
                return
            thread_id = found.id
        talk = Conversation()
        self._opening += 1
        try:
            if fork:
                opened = await client.fork_thread(thread_id, last_turn_id=last_turn_id, worktree=worktree)
            else:
                opened = await client.resume_thread(thread_id)
            options = await client.config_options(opened.thread.id)
            talk.config = {option.id: option.value for option in options}
            for asked in self.asked:
                if asked.thread_id == opened.thread.id:
                    talk.set_waiting(asked.params.item_id, waiting=True)
            self._turn_to(talk)
            self._view.show_blocks(talk.opened(opened))
        finally:
            self._caught_up()
        self._view.show_status()

    async def apply_new_settings(self) -> None:
        """To a thread that has terms already."""
        new_settings = self._new_settings
        if self.talk.thread_id and new_settings != NewThreadSettings(default_policy=new_settings.default_policy):
            if new_settings.agent is not None:
                await self.set_mode(new_settings.agent)
            await self.change(model=new_settings.model, policy=new_settings.policy, sandbox=new_settings.sandbox)

    async def begin_thread(self) -> None:
        """The thread on the screen begins to exist, with what was chosen for it."""
        talk = self.talk
        self._opening += 1
        try:
            opened = await self.connected.start_thread(
                model=talk.model or None,
                approval_policy=talk.policy,
                sandbox=talk.sandbox,
                cwd=talk.cwd or None,
                worktree=self.worktree,
            )
            self.worktree = None
            talk.opened(opened)
            if talk.config:
                await self.connected.change_settings(talk.thread_id, config=dict(talk.config))
        finally:
            self._caught_up()

    async def mcp_states(self) -> dict[str, str]:
        """How each MCP server is, in a few words. Those of the thread are waited for while they start."""
        found = await self.connected.mcp_servers(self.talk.thread_id or None)
        with anyio.move_on_after(MCP_START_SECONDS):
            while any(server.status == "starting" for server in found):
                await anyio.sleep(MCP_LOOK_SECONDS)
                found = await self.connected.mcp_servers(self.talk.thread_id or None)
        return {server.name: _state(server) for server in found}

    async def budgets(self) -> list[str]:
        """How much of each budget is used, in words."""
        return (await self.connected.context(self.talk.thread_id)).budgets if self.talk.thread_id else []

    async def learn_models(self) -> None:
        self.models = await self.connected.models(hidden=True)
        details = {model.id: model.details for model in self.models if isinstance(model.details, dict)}
        self._prices = {name: known["price"] for name, known in details.items() if isinstance(known.get("price"), dict)}

    def _turn_to(self, talk: Conversation) -> None:
        talk.prices = self._prices
        before, self.talk = self.talk, talk
        self._view.show_thread(before)

    def _caught_up(self) -> None:
        self._opening -= 1
        backlog, self._backlog = self._backlog, []
        for event in backlog:
            self.handle_event(event)

    # -- events of the server

    def handle_event(self, event: agent_events.AgentEvent) -> None:
        match event:
            case agent_events.ItemDelta(thread_id=thread_id) if not self._opening:  # a thousand a second
                if thread_id == self.talk.thread_id and (block := self.talk.grow(event)) is not None:
                    self._view.show_change(block)
            case agent_events.ApprovalAsked():
                self.asked.append(event)
                self._mark(event, waiting=True)
                self._view.show_question()
            case agent_events.ApprovalSettled(request_id=request_id):
                for asked in self.asked:
                    if asked.request_id == request_id:
                        self._mark(asked, waiting=False)
                self.asked = [asked for asked in self.asked if asked.request_id != request_id]
                self._view.show_question()
            case agent_events.Closed(why=why):
                self._view.note(why, meaning="bad")
            case _ if self._opening:
                self._backlog.append(event)
            case _ if agent_events.thread_of(event) == self.talk.thread_id:
                self._handle_thread_event(event)
            case _:
                pass

    def _handle_thread_event(self, event: agent_events.AgentEvent) -> None:
        for block in self.talk.handle_undo(event):
            self._view.show_change(block)
        if isinstance(event, agent_events.Unknown) and event.message in self.known:
            return
        block, fresh = self.talk.handle_event(event)
        if block is not None and fresh:
            self._view.show_blocks([block])
        elif block is not None:
            self._view.show_change(block)
        if isinstance(event, agent_events.TurnCompleted):
            self._view.show_ending(event.turn)
        # Items come by the thousand and say nothing of the terms, except the first, which gives a thread its title.
        of_items = isinstance(event, agent_events.ItemDelta | agent_events.ItemStarted | agent_events.ItemCompleted)
        if not of_items or self.talk.title != self._titled:
            self._titled = self.talk.title
            self._view.show_status()

    def _mark(self, asked: agent_events.ApprovalAsked, *, waiting: bool) -> None:
        """The item that a question is about says that it waits."""
        if asked.thread_id == self.talk.thread_id:
            block = self.talk.set_waiting(asked.params.item_id, waiting=waiting)
            if block is not None:
                self._view.show_change(block)

    # -- prompts and answers

    async def send(self, text: str, *, queued: bool, typed: str | None = None) -> None:
        """Start a turn; while one runs, steer it or wait behind it. `typed` is the text without long pasted parts."""
        outputs, self.outputs = self.outputs, []
        parts = inputs(text, self._cwd, typed=typed)
        try:
            await self._send([*parts, *(TextInput(text=as_context(ran)) for ran in outputs)], queued=queued)
        except (AppServerError, ConnectionClosed):
            self.outputs = [*outputs, *self.outputs]
            raise

    async def _send(self, parts: list[UserInput], *, queued: bool) -> None:
        client, talk = self.connected, self.talk
        self._view.show_end()
        if queued and talk.running:
            await client.queue_prompt(talk.thread_id, parts)
        elif talk.running:
            await client.steer_turn(talk.thread_id, parts)
        else:
            begun = not talk.thread_id
            if begun:
                await self.begin_thread()
            try:
                await client.start_turn(talk.thread_id, parts)
            except AppServerError:
                if begun:  # nothing is left behind of a prompt that was refused
                    thread_id, talk.thread_id = talk.thread_id, ""
                    await client.delete_thread(thread_id)
                raise

    async def answer(self, asked: agent_events.ApprovalAsked, decision: m.ApprovalWord | Filled, word: str) -> None:
        client = self.connected
        self._mark(asked, waiting=False)
        self.asked = [other for other in self.asked if other is not asked]
        if word:
            # The message goes first, so that the model reads it together with the answer.
            await client.steer_turn(asked.thread_id, word)
        knows = decision != "cancel" or "cancel" in asked.params.available_decisions
        await client.answer(asked.request_id, decision if knows else "decline")
        if not knows:
            await client.interrupt_turn(asked.thread_id, asked.params.turn_id)
        if isinstance(asked.params, m.ElicitationParams) and not isinstance(decision, Filled):
            self._view.note(f"{ELICITATION_ENDINGS[decision]} {asked.params.server_name}")

    async def start_review(self, target: m.ReviewTarget, reviewer: str = "") -> None:
        if not self.talk.thread_id:
            await self.begin_thread()
        talk = self.talk
        turn = await self.connected.start_review(talk.thread_id, target, reviewer=reviewer)
        talk.review_turn_id = turn.id
        self._view.show_status()

    async def set_mode(self, mode: str) -> None:
        """`code`, `plan` or `review`, for the turns to come."""
        await self.set_option(AGENT_OPTION, mode)

    async def change_mode(self, mode: str, policy: m.ApprovalPolicy | None) -> None:
        """The agent, and the policy unless it stays as it is."""
        if mode != self.talk.config.get(AGENT_OPTION, "code"):
            await self.set_mode(mode)
        if policy is not None and policy != self.talk.policy:
            await self.change(policy=policy)

    async def set_option(self, option_id: str, value: str) -> None:
        """For the turns to come. A thread that does not exist yet remembers it."""
        talk = self.talk
        if talk.thread_id:
            await self.connected.set_config(option_id, value, thread_id=talk.thread_id)
        talk.config[option_id] = value
        self._view.show_status()

    async def interrupt(self) -> None:
        await self.connected.interrupt_turn(self.talk.thread_id, self.talk.turn_id)

    async def change(
        self,
        *,
        model: str | None = None,
        policy: m.ApprovalPolicy | None = None,
        sandbox: m.SandboxPolicy | None = None,
    ) -> None:
        """For the turns to come. A thread that does not exist yet remembers it."""
        talk = self.talk
        if talk.thread_id:
            await self.connected.change_settings(
                talk.thread_id, model=model, approval_policy=policy, sandbox_policy=sandbox
            )
        talk.model = model or talk.model
        talk.policy = policy or talk.policy
        talk.sandbox = sandbox or talk.sandbox
        self._view.show_status()


def _state(server: m.McpServerStatus) -> str:
    match server.status:
        case "failed":
            return f"failed: {server.error or 'it does not say why'}"
        case "ready":
            return f"ready: {len(server.tools)} tool{'s' * (len(server.tools) != 1)}"
        case "starting":
            return "starting"
        case _:
            return "starts with your next message"
