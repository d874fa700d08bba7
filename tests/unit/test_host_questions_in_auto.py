"""Switching a thread to `auto`: commands may then ask for hosts, as in a thread that began so."""

from pathlib import Path
from typing import Any

import pytest

from hames.app import open_engine
from hames.config.load import load
from hames.domain.commands import ChangeSettings, CreateThread
from hames.domain.json import Json
from hames.domain.network import NetworkRules
from hames.domain.options import Overrides
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.state import ThreadState
from hames.store.memory import MemoryStore

NO_NETWORK, ASKING = WorkspaceWrite(), WorkspaceWrite(network=NetworkRules())


async def switched(
    here: Path, change: Overrides, *, sandbox: Json = "workspaceWrite", mode: str = "ask", **created: Any
) -> tuple[SandboxPolicy, SandboxPolicy]:
    """The sandbox of a thread before and after the change."""
    flags: dict[str, Json] = {"cwd": str(here), "model": "scripted/hello", "mode": mode, "sandbox": sandbox}
    options = load(flags, {"HOME": str(here), "PATH": "/usr/bin"})
    async with open_engine(options, store=MemoryStore()) as engine:
        before = await engine.execute(CreateThread(overrides=Overrides(**created)))
        assert isinstance(before, ThreadState)
        after = await engine.execute(ChangeSettings(thread_id=before.id, overrides=change))
        assert isinstance(after, ThreadState)
    return before.settings.sandbox, after.settings.sandbox


AUTO = Overrides(approval_policy="onRequest", agent="code")


async def test_a_thread_that_is_switched_to_auto_asks_about_hosts_as_one_that_began_in_auto(tmp_path: Path) -> None:
    assert await switched(tmp_path, AUTO) == (NO_NETWORK, ASKING)
    assert await switched(tmp_path, AUTO, mode="plan", approval_policy="unlessTrusted") == (NO_NETWORK, ASKING)
    assert await switched(tmp_path, AUTO, mode="auto") == (ASKING, ASKING)
    assert await switched(tmp_path, AUTO, approval_policy="onRequest") == (ASKING, ASKING), "a client began it so"
    back = Overrides(approval_policy="unlessTrusted")
    assert await switched(tmp_path, back, mode="auto") == (ASKING, ASKING), "they are asked about there, too"


@pytest.mark.parametrize(
    "sandbox",
    [
        {"type": "workspaceWrite", "networkAccess": False},
        {"type": "workspaceWrite", "networkAccess": True},
        {"type": "workspaceWrite", "network": {"allow": ["example.org"]}},
        "readOnly",
        "dangerFullAccess",
    ],
    ids=str,
)
async def test_what_is_configured_about_the_network_stays(tmp_path: Path, sandbox: Json) -> None:
    before, after = await switched(tmp_path, AUTO, sandbox=sandbox)
    assert before == after


@pytest.mark.parametrize("sandbox", [NO_NETWORK, ReadOnly(), DangerFullAccess()], ids=lambda one: type(one).__name__)
async def test_a_client_that_names_a_sandbox_gets_that_one(tmp_path: Path, sandbox: SandboxPolicy) -> None:
    change = Overrides(approval_policy="onRequest", sandbox=sandbox)
    assert (await switched(tmp_path, change))[1] == sandbox
