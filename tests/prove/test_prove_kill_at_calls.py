"""A server that is killed at each of its system calls that change a file: the next one goes on as if nothing happened.

The servers are real, of every protocol, and run one turn with text, commands and approvals. `make prove` kills before
and after every call (HAMES_CALL_KILLS=all), `make test` at a few of them.
"""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from forked_servers import ForkedServer, ForkedServers, build_shim

from hames.domain.events import ApprovalRequested
from hames.domain.state import ThreadState
from kill_lanes import PROTOCOLS, STUCK_SECONDS, Lane
from lane_clients import GONE, POLL_SECONDS, Client, Failed
from proof_counts import count_proof

CALL_KILLS = os.environ.get("HAMES_CALL_KILLS", "2")
"""How many for each protocol, or `all`."""
CHUNKS = 20 if CALL_KILLS == "all" else 1
SLICE = ("bootstrap", "sync")
SCRIPT = [
    [
        {"think": "I wonder."},
        {"say": "A first look."},
        {"call": "shell", "with": {"command": "echo a >> ran.txt"}},
        {"call": "shell", "with": {"command": "echo b >> ran.txt"}},
    ],
    [{"say": "The end of it."}],
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServers]:
    forks = ForkedServers(build_shim(tmp_path_factory.mktemp("shim")))
    yield forks
    forks.close()


class CallLane(Lane):
    """Its process dies at the call with this number; 0 for none."""

    def __init__(self, protocol: str, directory: Path, servers: ForkedServers) -> None:
        super().__init__(protocol, asks=True, directory=directory, script=SCRIPT)
        self.number, self.after = 0, False
        self.calls: Path | None = None
        self.heard: Client | None = None
        self._servers = servers

    async def open_process(self) -> Any:
        return self._fork()

    @contextlib.asynccontextmanager
    async def _fork(self) -> AsyncGenerator[ForkedServer]:
        process = await self._servers.start(
            self.command(), self.environment(), number=self.number, after=self.after, calls=self.calls
        )
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True), anyio.fail_after(60):
                await process.wait()
                await process.stdin.aclose()
                await process.stdout.aclose()

    async def make_client(self, process: Any, stack: contextlib.AsyncExitStack) -> Client:
        self.heard = await super().make_client(process, stack)
        return self.heard

    async def one_turn(self) -> bool:
        """Prompts, and answers whatever is asked until the turn or the process ends. Whether the prompt was taken."""
        taken = False
        try:
            async with self.process() as (_, client):
                await client.prompt()
                taken = True
                with anyio.fail_after(STUCK_SECONDS):
                    while not client.ended and not client.gone.is_set():
                        await client.answer_all()
                        await anyio.sleep(POLL_SECONDS / 2)
        except (Failed, *GONE):
            pass
        except BaseExceptionGroup as group:
            if (rest := group.split((Failed, *GONE))[1]) is not None:
                raise rest from None
        return taken

    async def killed_at(self, number: int, *, after: bool) -> str:
        """One turn whose process dies at that call, and the process after it. Returns the call, or nothing."""
        self.number, self.after, self.calls = number, after, self.directory / "calls"
        taken = await self.one_turn()
        died = self.calls.read_text()
        self.number, self.calls = 0, None
        state = await self.state()
        has_turn = state is not None and bool(state.turns)
        heard = self.heard
        if heard is not None:
            self.told = list(heard.texts.items())
            kept = {one.event.approval.id for one in self.records if isinstance(one.event, ApprovalRequested)}
            if set(heard.asked) - kept:
                raise Failed("an approval was told and is not in the log")
            if heard.ended and (state is None or state.running is not None):
                raise Failed("the end of the turn was told and is not in the log")
            if (heard.texts or heard.asked) and not has_turn:
                raise Failed("what was told of a turn is not in the log")
        if taken and self.protocol not in ASYNCHRONOUS and not has_turn:
            raise Failed("the prompt was taken and is not in the log")
        self.open = {approval.id for approval in state.approvals} if state is not None else set[str]()
        async with self.process() as (_, client):
            if not has_turn:  # it goes on with a prompt, as if the first process had never been
                await client.prompt()
                with anyio.fail_after(STUCK_SECONDS):
                    await _until_started(self)
            await self.finish(client)
            await self.check(client)
            if not self.turns:
                raise Failed("there is no turn")
        return died.strip()


ASYNCHRONOUS = ("acp", "sync")
"""Their clients are told later that a prompt was taken."""


async def _until_started(lane: CallLane) -> ThreadState:
    while (state := await lane.state()) is None or not state.turns:
        await anyio.sleep(POLL_SECONDS)
    return state


async def all_calls(protocol: str, directory: Path, servers: ForkedServers) -> list[str]:
    lane = CallLane(protocol, directory, servers)
    lane.calls = directory / "calls"
    assert await lane.one_turn()
    return lane.calls.read_text().splitlines()


@pytest.mark.needs("cc")
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize(
    "protocol", [one if one in SLICE else pytest.param(one, marks=pytest.mark.slow) for one in PROTOCOLS]
)
async def test_killed_at_any_call_that_changes_a_file_the_turn_goes_on(
    tmp_path: Path, servers: ForkedServers, protocol: str, chunk: int
) -> None:
    calls = await all_calls(protocol, tmp_path / "calls", servers)
    numbers = range(1, len(calls) + 1)
    if CALL_KILLS != "all":  # before one in each part of the turn
        numbers = numbers[len(calls) // 8 :: max(1, len(calls) // int(CALL_KILLS))]
    kills, places, failures = 0, Counter[str](), list[str]()
    for number in numbers[chunk::CHUNKS]:
        for after in (False, True) if CALL_KILLS == "all" else (bool(number % 2),):
            directory = tmp_path / f"{number}{'+' if after else '-'}"
            place = ""
            try:
                place = await CallLane(protocol, directory, servers).killed_at(number, after=after)
            except Exception as problem:
                failures.append(f"{'after' if after else 'before'} call {number} of {len(calls)}: {problem!r}")
                continue
            kills += bool(place)
            places[place.split()[1] if place else "none"] += 1
            shutil.rmtree(directory)
    every = CALL_KILLS == "all"
    count_proof("kills at every call that changes a file" if every else "kills at calls that change a file", kills)
    print(f"{protocol}: {kills} kills at {len(calls)} calls: {dict(places.most_common())}")
    assert not failures, "\n".join(failures)
    assert kills or not numbers
