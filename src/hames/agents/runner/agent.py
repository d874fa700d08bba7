"""A sandbox runner as an agent: turns run in another process or on another machine, and are shown here as our own.

A run is one request. It is cancelled by closing it, and it ends well only when the runner says so: silence, a broken
connection and an answer that is no stream are errors in words. What a runner cannot do is refused in words as well:
it says what it can do (`GET /capabilities`), and one that says nothing can do what the specification has.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import anyio
import msgspec
from msgspec.structs import replace

from hames.agents.asking import Answering, read_beside_questions
from hames.agents.runner.capabilities import NOTHING_ANNOUNCED, Announcement, read_announcement
from hames.agents.runner.events import EventParser, Told
from hames.agents.runner.models import NAME, RunnerModels
from hames.agents.runner.requests import content, run_body
from hames.agents.runner.translation import RunnerTool, Translation
from hames.agents.thread_map import ThreadMap
from hames.codecs.sse import EventTooLong
from hames.domain.approvals import Answer
from hames.domain.errors import ErrorInfo, InvalidCommand, Misconfigured, ProviderError
from hames.domain.events import Noticed
from hames.domain.items import UserMessage
from hames.domain.json import Json
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState, Turn
from hames.domain.value import Value
from hames.ports import Ability, Task, TurnHandle

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
STALL_SECONDS = 120.0
ASK_SECONDS = 3.0
"""How long a runner may take to say what it can do. One of the specification may not answer at all."""
STEER_SECONDS = 10.0
CLOSE_SECONDS = 1.0
ABILITIES: tuple[Ability, ...] = ("review", "compact", "steer", "instructions", "outputSchema", "mcpServers")
NOT_NOW = frozenset({401, 403, 408, 421, 429, 500, 502, 503, 504})
"""Answers that say nothing about what a runner can do."""


class KnownTurns(Value):
    """The answer to `GET /threads/{thread}`: which of our turns the runner has seen. `unnamed` have no name there."""

    turns: tuple[str, ...] = ()
    unnamed: int = 0


class RunnerAgent:
    """Implements `ports.Agent`."""

    name = NAME

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        stall_s: float = STALL_SECONDS,
        cwd: str = "",
        memory: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """`stall_s`: after so much silence, heartbeats included, the run is given up. `cwd` is this server's directory,
        where a thread means the runner's own. `memory` is the directory that says which turns a runner has seen that
        cannot say so itself."""
        self.url = url.rstrip("/")
        self.cwd = cwd
        self.stall_s = stall_s
        self.announced: Announcement | None = None
        self.seen = ThreadMap(memory)
        self.models = RunnerModels(self.url)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator["RunnerThread"]:  # noqa: ARG002 - a run is one request
        if self.announced is None:
            await self.learn()
        yield RunnerThread(self)

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def http(self) -> "httpx2.AsyncClient":
        if self._client is None:
            import httpx2

            timeout = httpx2.Timeout(CONNECT_SECONDS, read=self.stall_s)
            self._client = httpx2.AsyncClient(timeout=timeout, headers=self._headers, trust_env=False)
        return self._client

    async def learn(self) -> Announcement | None:
        """Asks the runner what it can do. None: it cannot be asked now, and nothing is known."""
        import httpx2

        try:
            with anyio.fail_after(ASK_SECONDS):
                answer = await self.http().get(f"{self.url}/capabilities")
        except TimeoutError:
            self.announced = NOTHING_ANNOUNCED
        except (httpx2.HTTPError, httpx2.InvalidURL) as why:
            log.info("runner.not_asked", extra={"error": str(why) or type(why).__name__})
            self.announced = None
        else:
            if answer.status_code in NOT_NOW:
                self.announced = None
            else:
                self.announced = read_announcement(answer.content) if answer.is_success else NOTHING_ANNOUNCED
        if self.announced is not None:
            self.models.learn(self.announced)
        return self.announced

    async def known_turns(self, thread_id: str) -> KnownTurns:
        """Raises `ProviderError`."""
        import httpx2

        try:
            answer = await self.http().get(f"{self.url}/threads/{quote(thread_id, safe='')}")
            return msgspec.json.decode(answer.content, type=KnownTurns) if answer.is_success else KnownTurns()
        except (httpx2.HTTPError, msgspec.DecodeError) as why:
            raise ProviderError(
                f"the runner at {self.url} does not say what it has seen of this thread: {why}",
                info="HttpConnectionFailed",
            ) from None


@asynccontextmanager
async def connected(
    url: str, model: str, *, token: str, stall_s: float, cwd: str, memory: Callable[[], Path | None]
) -> AsyncGenerator[RunnerAgent]:
    """A runner that was asked what it can do. `model` is the one for threads that name none; empty: its own choice.

    Raises `Misconfigured` for a model that the runner does not have. A runner that cannot be reached yet is no error.
    """
    agent = RunnerAgent(url, token=token, stall_s=stall_s, cwd=cwd, memory=memory)
    try:
        announced = await agent.learn()
        if model and announced is None:
            raise Misconfigured(f"the runner at {url} cannot be asked whether it has the model {model!r}")
        if model:
            agent.models.choose(model)
        yield agent
    finally:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await agent.aclose()


class RunnerThread:
    """Implements `ports.AgentThread`."""

    def __init__(self, agent: RunnerAgent) -> None:
        self._agent = agent
        self._warned: set[str] = set()
        self._thread_id = ""
        self._running: Translation | None = None
        self._started = anyio.Event()

    @property
    def abilities(self) -> frozenset[Ability]:
        announced = self._agent.announced or NOTHING_ANNOUNCED
        return frozenset(ability for ability in ABILITIES if ability in announced.can)

    async def run(self, task: Task, turn: TurnHandle) -> str:
        announced = self._agent.announced
        if announced is None or announced.can:  # it may have been started again, as another version
            announced = await self._agent.learn()
        history = await self._unseen(turn, announced or NOTHING_ANNOUNCED)
        settings = replace(turn.settings, mcp_servers=turn.mcp_servers)
        body, needs = run_body(task, settings, cwd=self._agent.cwd or settings.cwd, history=history)
        if announced is not None:
            announced.require(dict.fromkeys(needs))
            await self._warn(turn, announced)
        elif needs:
            raise ProviderError(
                f"the runner at {self._agent.url} cannot be reached, or refuses to say what it can do",
                info="HttpConnectionFailed",
            )
        body |= {"thread": turn.thread_id, "turn": turn.turn_id}
        try:
            return await read_beside_questions(partial(self._follow, turn, body))
        finally:
            self._running, self._started = None, anyio.Event()

    async def steer(self, message: UserMessage) -> None:
        import httpx2

        with anyio.move_on_after(STEER_SECONDS):
            await self._started.wait()
        if self._running is None:
            raise InvalidCommand("the runner is still starting: try again in a moment")
        body = {"thread": self._thread_id, "run": self._running.run_id, "content": content(message)}
        try:
            with anyio.fail_after(STEER_SECONDS):
                answer = await self._agent.http().post(f"{self._agent.url}/steer", json=body)
        except (TimeoutError, httpx2.HTTPError):
            raise InvalidCommand("the runner did not accept the message; its run may be ending") from None
        if not answer.is_success:
            raise InvalidCommand(f"the runner cannot be steered now: {_reason(answer.content)}")

    def servers(self) -> Mapping[str, ServerStatus]:
        """None of ours: the runner starts the servers of its own configuration."""
        return {}

    async def _unseen(self, turn: TurnHandle, announced: Announcement) -> list[Turn]:
        """The earlier turns of this thread that the runner has not seen."""
        earlier = [one for one in turn.state.turns if one.id != turn.turn_id and one.items]
        if not earlier:
            return []
        if "history" in announced.can:
            known = await self._agent.known_turns(turn.thread_id)
            unseen = [one for one in earlier if one.id not in known.turns]
            return unseen[known.unnamed :]
        seen = self._agent.seen.known(turn.thread_id)
        if seen is None or seen.thread != self._agent.url:
            return earlier
        return [one for one in earlier if one.id not in seen.turns]

    async def _warn(self, turn: TurnHandle, announced: Announcement) -> None:
        """Says once for each thread that the runner does not ask as this thread's policy says."""
        policy = turn.settings.approval_policy
        if policy == "never" or "approval" in self._warned:
            return
        if "approvalPolicy" not in announced.can:
            message = "The runner never asks for an approval: it does not support them."
        elif announced.approval_policy not in (None, policy):
            message = f"The runner was started with its own approval policy, {announced.approval_policy}, which applies"
        else:
            return
        self._warned.add("approval")
        await turn.emit(
            Noticed(source=NAME, name="approvals", severity="warning", message=message, turn_id=turn.turn_id)
        )

    async def _answer(self, turn: TurnHandle, told: Told, item: RunnerTool) -> None:
        import httpx2

        if told.intent is None:
            answer = Answer(decision="reject", note="this kind of question cannot be shown to you")
        else:
            answer = await turn.ask(item.id, told.intent, told.reason)
        try:
            await self._agent.http().post(
                f"{self._agent.url}/approvals/{quote(told.id, safe='')}",
                json={"decision": answer.decision, "note": answer.note, "content": answer.content},
            )
        except httpx2.HTTPError as why:
            # Its stream says the rest.
            log.warning("runner.answer_not_sent", extra={"error": str(why) or type(why).__name__})

    async def _follow(self, turn: TurnHandle, request: dict[str, Json], beside: Callable[[Answering], None]) -> str:
        """The run, to its end. People take their time, and the runner is read meanwhile: it may end."""
        import httpx2

        parser = EventParser()
        translation = Translation(turn, lambda told, item: beside(partial(self._answer, turn, told, item)))
        try:
            async with self._agent.http().stream("POST", f"{self._agent.url}/runs", json=request) as response:
                if response.status_code != 200:
                    raise await _refused(response)
                self._note_seen(turn)
                async with aclosing(response.aiter_raw()) as chunks:
                    async for chunk in chunks:
                        for name, told in parser.feed(chunk):
                            await translation.hear(name, told)
                            if name == "run.started":
                                self._thread_id, self._running = turn.thread_id, translation
                                self._started.set()
                            if translation.ended:
                                return translation.stop_reason
        except httpx2.ReadTimeout:
            raise ProviderError(
                f"the runner sent nothing for {self._agent.stall_s:g} s, so the run was stopped",
                info="ResponseStreamDisconnected",
            ) from None
        except httpx2.ConnectError as why:
            raise ProviderError(
                f"the runner at {self._agent.url} cannot be reached: {why}", info="HttpConnectionFailed"
            ) from None
        except (httpx2.HTTPError, EventTooLong) as why:
            raise ProviderError(
                f"the connection to the runner was lost: {why or type(why).__name__}", info="ResponseStreamDisconnected"
            ) from None
        raise ProviderError("the runner closed the connection before the run ended", info="ResponseStreamDisconnected")

    def _note_seen(self, turn: TurnHandle) -> None:
        """Remembers which turns a runner has been given that cannot say so itself."""
        announced = self._agent.announced or NOTHING_ANNOUNCED
        if "history" not in announced.can:
            self._agent.seen.keep(turn.thread_id, self._agent.url, {turn.turn_id: ""})


async def _refused(response: "httpx2.Response") -> ProviderError:
    status = response.status_code
    info: ErrorInfo = "HttpConnectionFailed"
    if status in (401, 403):
        info = "Unauthorized"
    elif status in (400, 409, 413):
        info = "BadRequest"
    return ProviderError(
        f"the runner refused the run ({status}): {_reason(await response.aread())}", status=status, info=info
    )


def _reason(body: bytes) -> str:
    """The sentence in an answer that refuses; its first characters, if it has none."""
    try:
        said = msgspec.json.decode(body)
        return str(said["error"]["message"])[:2000]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return body[:500].decode("utf-8", "replace")
