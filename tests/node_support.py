"""Nodes for tests: engines in this process, each with its own store, lease and inbox on one database."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hames.app.nodes import NodeWorkspace
from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.ports import Provider, Tool
from hames.server.peers.store_peers import StorePeers
from hames.store.postgres.letters import PostgresLetters
from hames.store.postgres.nodes import PostgresNodes
from hames.store.postgres.server_state import PostgresServerState
from hames.store.postgres.store import PostgresStore
from hames.testing.fakes.model import ScriptedModel
from hames.testing.services.postgres import Cluster
from support import engine

LEASE_SECONDS = 60.0
"""Tests that need it end a lease themselves: on a busy machine a short one ends when nobody wants it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    found = Cluster().start()
    yield found
    found.stop()


@pytest.fixture
def database(cluster: Cluster) -> str:
    return cluster.new_database()


def node(
    address: str,
    model: Provider | None = None,
    *tools: Tool,
    name: str = "a",
    slots: int = 20,
    labels: tuple[str, ...] = (),
    lease_s: float = LEASE_SECONDS,
    cwd: Path | str = "/",
    **rules: object,
) -> Engine:
    """`slots` 0: a gateway."""
    store = PostgresStore(address, name=name, lease_seconds=lease_s)
    nodes = PostgresNodes(store, name=name, labels=labels, slots=slots)
    return engine(
        model or ScriptedModel(),
        *tools,
        store=store,
        nodes=nodes,
        peers=StorePeers(PostgresLetters(store, nodes)),
        clock=SystemClock(),
        ids=RandomIds(),
        cwd=cwd,
        works=slots > 0,
        workspace=NodeWorkspace(PostgresServerState(store)) if slots else None,
        leaves_turns=True,
        **rules,
    )


def node_parts(address: str, name: str, *, works: bool) -> dict[str, Any]:
    """The parts of an engine that make it a worker, or a gateway."""
    store = PostgresStore(address, name=name, lease_seconds=LEASE_SECONDS)
    nodes = PostgresNodes(store, name=name, slots=20 if works else 0)
    return {"store": store, "nodes": nodes, "peers": StorePeers(PostgresLetters(store, nodes))}


def end_lease(cluster: Cluster, address: str, name: str) -> None:
    """As if the node had been silent for the time of its lease."""
    database = address.partition("?")[0].rpartition("/")[2]
    cluster.psql(f"update hames.node set until = now() - interval '1 second' where name = '{name}'", database=database)
