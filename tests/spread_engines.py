"""Runs tests that know one engine on two or three: clients speak to one of them, and others run the threads.

Every engine that the test makes shares its directory with others, which create all of its threads. They are what
processes are to each other: each has a store and a socket of its own.
"""

from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from hames.clock_and_ids import RandomIds
from hames.core.engine import Engine, Outcome
from hames.domain.commands import Command, CreateThread
from hames.server.peers.sockets import PeerSockets
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryStore
from hames.store.places import Places
from hames.testing.fakes.clock import CountingIds


class SpreadEngines:
    """`threads` counts those that were created in another engine than the one that was asked."""

    def __init__(self, patch: pytest.MonkeyPatch, directory: Path, count: int) -> None:
        self.threads = 0
        self._directory = directory
        self._count = count
        self._number = 0
        self._init, self._enter, self._exit = Engine.__init__, Engine.__aenter__, Engine.__aexit__
        self._made: dict[int, dict[str, Any]] = {}
        self._stacks: dict[int, AsyncExitStack] = {}
        spread = self

        def make(engine: Engine, **parts: Any) -> None:
            spread._make(engine, parts)

        async def enter(engine: Engine) -> Engine:
            return await spread._open(engine)

        async def leave(
            engine: Engine,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None:
            try:
                await spread._exit(engine, kind, error, trace)
            finally:
                await spread._stacks.pop(id(engine)).aclose()

        patch.setattr(Engine, "__init__", make)
        patch.setattr(Engine, "__aenter__", enter)
        patch.setattr(Engine, "__aexit__", leave)

    def _make(self, engine: Engine, parts: dict[str, Any]) -> None:
        if isinstance(parts["store"], MemoryStore):
            self._number += 1
            place = self._directory / f"engines-{self._number}"
            place.mkdir()
            parts["store"] = JsonlStore(place / "data", places=Places(place / "state"))
        if isinstance(parts["ids"], CountingIds):  # two of them would give two threads one id
            parts["ids"] = RandomIds()
        self._made[id(engine)] = parts
        self._init(engine, **{**parts, "peers": PeerSockets(parts["store"].private_directory)})

    async def _open(self, engine: Engine) -> Engine:
        parts = self._made[id(engine)]
        stack = self._stacks[id(engine)] = AsyncExitStack()
        owners: list[Engine] = []
        for _ in range(self._count - 1):
            own = parts["store"]
            store = JsonlStore(own._root, places=own._places)
            owner = Engine.__new__(Engine)
            self._init(owner, **{**parts, "store": store, "peers": PeerSockets(store.private_directory)})
            owners.append(await self._enter(owner))
            stack.push_async_callback(self._exit, owner, None, None, None)
        await self._enter(engine)
        execute, following = engine.execute, cycle(owners)

        async def route(command: Command) -> Outcome:
            if not isinstance(command, CreateThread):
                return await execute(command)
            self.threads += 1
            return await next(following).execute(command)

        engine.execute = route  # type: ignore[method-assign] - the tests' own wiring
        return engine
