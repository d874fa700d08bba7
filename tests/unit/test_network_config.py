"""Hosts in the configuration and on the wire: a boolean stays a boolean, and what is not understood opens nothing."""

from pathlib import Path

import msgspec
import pytest

from hames.agents.codex.requests import sandbox as codex_sandbox
from hames.config.load import load
from hames.domain.errors import InvalidCommand, Misconfigured
from hames.domain.network import GROUPS, NetworkRules, check_patterns
from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.protocols.flint import inbound, parts
from hames.protocols.flint import messages as m
from hames.protocols.runner.inbound import allowed_sandbox


def loaded(tmp_path: Path, text: str) -> SandboxPolicy:
    (tmp_path / "config.toml").write_text(text)
    environment = {"HAMES_CONFIG": str(tmp_path / "config.toml"), "HAMES_STATE": str(tmp_path), "HOME": str(tmp_path)}
    return load({"cwd": str(tmp_path)}, environment).sandbox


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", WorkspaceWrite()),
        ('approval_policy = "onRequest"', WorkspaceWrite(network=NetworkRules())),
        ('approval_policy = "onRequest"\nsandbox = "workspace-write"', WorkspaceWrite(network=NetworkRules())),
        (
            'approval_policy = "onRequest"\nsandbox = { type = "workspaceWrite", networkAccess = false }',
            WorkspaceWrite(),
        ),
        (
            'approval_policy = "onRequest"\nsandbox = { type = "workspaceWrite", network_access = true }',
            WorkspaceWrite(network_access=True),
        ),
        ('approval_policy = "onRequest"\nsandbox = "readOnly"', ReadOnly()),
        ('approval_policy = "never"', WorkspaceWrite()),
        (
            'sandbox = { type = "workspaceWrite", network = { allow = ["a.org", "@registries"], deny = ["b.org"] } }',
            WorkspaceWrite(network=NetworkRules(allow=("a.org", "@registries"), deny=("b.org",))),
        ),
    ],
)
def test_what_the_configuration_says_about_hosts(tmp_path: Path, text: str, policy: SandboxPolicy) -> None:
    assert loaded(tmp_path, text) == policy


@pytest.mark.parametrize(
    "text",
    [
        'sandbox = { type = "workspaceWrite", network = { allow = ["127.0.0.1"] } }',
        'sandbox = { type = "workspaceWrite", network = { allowed = ["a.org"] } }',
        'sandbox = { type = "workspaceWrite", network = { allow = "a.org" } }',
        'sandbox = { type = "workspaceWrite", network = true }',
        'sandbox = { type = "workspaceWrite", network = { allow = [1] } }',
        'sandbox = { type = "readOnly", network = { allow = ["a.org"] } }',
    ],
)
def test_hosts_that_are_not_understood_are_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(Misconfigured):
        loaded(tmp_path, text)


def test_the_registries_are_names_of_hosts() -> None:
    for hosts in GROUPS.values():
        check_patterns(NetworkRules(allow=hosts))


def test_flint_carries_hosts_and_leaves_them_out_where_there_are_none() -> None:
    plain = WorkspaceWrite(network_access=True)
    named = WorkspaceWrite(network=NetworkRules(allow=("a.org",), deny=("b.org",)))
    for policy in (plain, named):
        wire = msgspec.json.encode(parts.sandbox(policy))
        assert inbound.sandbox(msgspec.json.decode(wire, type=m.SandboxPolicy)) == policy
    assert "network" not in msgspec.to_builtins(parts.sandbox(plain))
    with pytest.raises(InvalidCommand):
        inbound.sandbox(m.WorkspaceWrite(network=m.NetworkRules(allow=["10.0.0.1"])))


def test_codex_gets_the_network_only_where_every_host_is_allowed() -> None:
    denied = NetworkRules(deny=("b.org",))
    for policy, network in (
        (WorkspaceWrite(network_access=True), True),
        (WorkspaceWrite(network_access=True, network=denied), False),
        (WorkspaceWrite(network=NetworkRules(allow=("*",))), False),
    ):
        assert codex_sandbox(policy)["networkAccess"] is network


@pytest.mark.parametrize(
    ("most", "wanted", "allowed"),
    [
        (WorkspaceWrite(), WorkspaceWrite(network=NetworkRules()), False),
        (WorkspaceWrite(network_access=True), WorkspaceWrite(network=NetworkRules(allow=("a.org",))), True),
        (WorkspaceWrite(network=NetworkRules(allow=("a.org",))), WorkspaceWrite(), True),
        (WorkspaceWrite(network=NetworkRules(allow=("a.org",))), WorkspaceWrite(network_access=True), False),
        (
            WorkspaceWrite(network=NetworkRules(allow=("a.org",))),
            WorkspaceWrite(network=NetworkRules(allow=("b.org",))),
            False,
        ),
        (
            WorkspaceWrite(network_access=True, network=NetworkRules(deny=("b.org",))),
            WorkspaceWrite(network_access=True),
            False,
        ),
        (
            WorkspaceWrite(network_access=True, network=NetworkRules(deny=("b.org",))),
            WorkspaceWrite(network_access=True, network=NetworkRules(deny=("b.org", "c.org"))),
            True,
        ),
    ],
)
def test_a_runner_gives_no_more_hosts_than_it_was_started_with(
    most: WorkspaceWrite, wanted: WorkspaceWrite, *, allowed: bool
) -> None:
    if allowed:
        assert allowed_sandbox(wanted, most) == wanted
    else:
        with pytest.raises(InvalidCommand):
            allowed_sandbox(wanted, most)
