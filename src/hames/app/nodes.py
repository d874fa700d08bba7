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
from hames.domain.value import Value
from hames.ports import NodeStatus
from hames.server.peers.store_peers import StorePeers
from hames.store.postgres.letters import PostgresLetters
from hames.store.postgres.nodes import PostgresNodes, list_nodes
from hames.store.postgres.store import PostgresStore
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


class UncheckedDirectories(LocalWorkspace):
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
    nodes = PostgresNodes(store, name=name, labels=node.labels, slots=node.slots, version=__version__)
    async with open_engine(
        options,
        store=store,
        nodes=nodes,
        peers=StorePeers(PostgresLetters(store, nodes)),
        works=node.slots > 0,
        leaves_turns=True,
        workspace=None if node.slots else UncheckedDirectories(),
        place=node.place,
        **parts,
    ) as engine:
        yield engine


async def find_nodes(address: str) -> Sequence[NodeStatus]:
    """Raises `Misconfigured`, `StorageFailed`."""
    store = PostgresStore(address)
    try:
        return await list_nodes(store)
    finally:
        await store.close()
