"""An engine as a node of a shared store: the database, the lease and the letters. Imported with `--store` only."""

import re
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from posixpath import normpath
from typing import Any

from hames import __version__
from hames.app import open_engine
from hames.config.load import Options
from hames.core.engine import Engine
from hames.domain.errors import InvalidCommand, Misconfigured
from hames.domain.uploads import upload_of
from hames.domain.value import Value
from hames.ports import NodeStatus
from hames.ports.server_state import ServerState
from hames.server.peers.store_peers import StorePeers
from hames.store.postgres.letters import PostgresLetters
from hames.store.postgres.nodes import PostgresNodes, list_nodes
from hames.store.postgres.server_state import PostgresDaySpending, PostgresServerState
from hames.store.postgres.store import PostgresStore
from hames.store.spending import local_day
from hames.tools.files.workspace import LocalWorkspace

SLOTS = 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class NodeOptions(Value):
    """What the command line says about a node."""

    store: str
    """The address of the database."""
    name: str = ""
    """Empty: the machine's own."""
    labels: tuple[str, ...] = ()
    slots: int = SLOTS
    """How many turns it takes up at once; 0: none, it is a gateway."""
    lease_s: float = 10.0
    place: str = ""
    """Of threads that are created here and say nothing else."""


class NodeWorkspace(LocalWorkspace):
    """The files of this machine, and pictures that were uploaded to any server of the store."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def read_file(self, path: str, *, limit: int) -> bytes:
        if not (upload_id := upload_of(path)):
            return await super().read_file(path, limit=limit)
        found = await self._state.find_upload(upload_id)
        if found is None or len(found) > limit:
            raise InvalidCommand(f"no upload {upload_id!r}" if found is None else "the picture is too large")
        return found


class UncheckedDirectories(NodeWorkspace):
    """For a gateway: the directories of threads are on the machines of the workers."""

    async def resolve_directory(self, path: str) -> str:
        if "\0" in path or not path.startswith("/"):
            raise InvalidCommand(f"not an absolute path: {path!r}")
        return normpath(path)


def node_store(node: NodeOptions) -> PostgresStore:
    """Raises `Misconfigured`."""
    return PostgresStore(node.store, name=node_name(node), lease_seconds=node.lease_s)


def node_name(node: NodeOptions) -> str:
    """Raises `Misconfigured`."""
    name = node.name or re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:63]
    for word in (name, *node.labels):
        if not NAME.fullmatch(word):
            raise Misconfigured(f"{word!r} cannot be the name or label of a node: letters, digits, dots and dashes")
    return name


@asynccontextmanager
async def open_node(
    options: Options, node: NodeOptions, *, store: PostgresStore | None = None, **parts: Any
) -> AsyncGenerator[Engine]:
    """An engine that shares the store with other nodes. Raises `Misconfigured`, `StorageFailed`."""
    name = node_name(node)
    store = store or node_store(node)
    state = PostgresServerState(store)
    nodes = PostgresNodes(store, name=name, labels=node.labels, slots=node.slots, version=__version__)
    async with open_engine(
        options,
        store=store,
        nodes=nodes,
        peers=StorePeers(PostgresLetters(store, nodes)),
        works=node.slots > 0,
        leaves_turns=True,
        workspace=NodeWorkspace(state) if node.slots else UncheckedDirectories(state),
        day_spending=PostgresDaySpending(store, local_day),
        place=node.place,
        **parts,
    ) as engine:
        yield engine


def server_state(store: PostgresStore) -> ServerState:
    """What its servers have in common beside threads."""
    return PostgresServerState(store)


@asynccontextmanager
async def open_server_state(address: str) -> AsyncGenerator[ServerState]:
    """For a command of an operator. Raises `Misconfigured`, `StorageFailed`."""
    store = PostgresStore(address)
    try:
        yield PostgresServerState(store)
    finally:
        await store.close()


async def find_nodes(address: str) -> Sequence[NodeStatus]:
    """Raises `Misconfigured`, `StorageFailed`."""
    store = PostgresStore(address)
    try:
        return await list_nodes(store)
    finally:
        await store.close()
