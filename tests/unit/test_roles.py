"""Who may do what: every command, every endpoint, every change of settings."""

from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import fields, replace

from hames.domain.actors import Actor, with_client
from hames.domain.commands import ChangingCommand, Command, ListProcesses, ListServers, ResumeThread
from hames.domain.errors import InvalidCommand, Misconfigured, NotPermitted
from hames.domain.ids import ThreadId
from hames.domain.options import Overrides, Settings, ThreadServer
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, WorkspaceWrite
from hames.domain.roles import NAMED_ROLES, Access, Role, loosened, needed_role, refusal
from hames.server.guard.named_tokens import NamedTokens, TokenFile
from hames.server.http.routes import endpoint
from hames.stdio.principals import Principal
from hames.testing.fakes.clock import FakeClock

NOT_CHANGING = {"ListThreads", "ReadThread", "ListServers", "ListProcesses", "ListWorktrees", "ReadContext"}
OBSERVER = {"ListThreads", "ReadThread", "ListServers", "ListProcesses", "ListWorktrees", "ResumeThread"}
APPROVER = {"FinishWorktree", "ResolveApproval", "RunProgram"}


def example(kind: type[Command]) -> Command:
    """Nothing looks at its fields, but for the commands of the next test."""
    return kind(**{field.name: "x" for field in fields(kind) if field.required})


@pytest.mark.parametrize("kind", get_args(Command), ids=lambda kind: kind.__name__)
def test_every_command_has_a_role_and_carries_who_gave_it(kind: type[Command]) -> None:
    name = kind.__name__
    assert issubclass(kind, ChangingCommand) == (name not in NOT_CHANGING)
    if name in ("ResumeThread", "ListProcesses", "ListServers"):
        return  # by what they ask for: the next test
    expected: Role = "observer" if name in OBSERVER else "approver" if name in APPROVER else "driver"
    assert needed_role(example(kind)) == expected


def test_a_command_that_only_looks_in_one_form_needs_more_in_the_other() -> None:
    thread = ThreadId("ses_1")
    assert needed_role(ResumeThread(thread_id=thread)) == "observer"
    assert needed_role(ResumeThread(thread_id=thread, overrides=Overrides(model="x"))) == "driver"
    assert needed_role(ListProcesses(thread_id=thread)) == "observer"
    assert needed_role(ListProcesses(thread_id=thread, end=1)) == "driver"
    assert needed_role(ListServers()) == "observer"
    assert needed_role(ListServers(thread_id=thread)) == "driver"


def test_each_role_may_do_what_the_lesser_ones_may() -> None:
    order: list[Role] = [*NAMED_ROLES, "owner"]
    for number, role in enumerate(order):
        access = Access(actor=Actor(kind="token", name="bob"), role=role)
        for other, needed in enumerate(order):
            assert bool(refusal(access, needed)) == (other > number)
        assert access.can_answer == (role in ("approver", "owner"))


HERE = Settings(model="a/b", cwd="/work/x", approval_policy="unlessTrusted", sandbox=WorkspaceWrite())
ROOTS = WorkspaceWrite(writable_roots=("/data",))


@pytest.mark.parametrize(
    ("before", "after", "is_looser"),
    [
        ({}, {"model": "c/d"}, False),
        ({}, {"approval_policy": "always"}, False),
        ({}, {"approval_policy": "onRequest"}, True),
        ({}, {"approval_policy": "never"}, True),
        ({"approval_policy": "never"}, {"approval_policy": "onRequest"}, False),
        ({}, {"sandbox": ReadOnly()}, False),
        ({}, {"sandbox": DangerFullAccess()}, True),
        ({}, {"sandbox": ExternalSandbox()}, True),
        ({}, {"sandbox": WorkspaceWrite(network_access=True)}, True),
        ({}, {"sandbox": ROOTS}, True),
        ({}, {"sandbox": WorkspaceWrite(writable_roots=("/work/x/sub",))}, False),
        ({}, {"sandbox": WorkspaceWrite(writable_roots=("/work/xy",))}, True),
        ({"sandbox": ROOTS}, {"sandbox": WorkspaceWrite(writable_roots=("/data/deep",))}, False),
        ({"sandbox": ReadOnly()}, {"sandbox": WorkspaceWrite()}, True),
        ({"sandbox": DangerFullAccess()}, {"sandbox": WorkspaceWrite(network_access=True)}, False),
        ({"sandbox": ExternalSandbox()}, {"sandbox": DangerFullAccess()}, True),
        ({}, {"cwd": "/work/x/sub"}, False),
        ({}, {"cwd": "/work"}, True),
        ({}, {"cwd": "/work/xy"}, True),
        ({"sandbox": ROOTS}, {"cwd": "/data/a", "sandbox": ROOTS}, False),
        ({}, {"mcp_servers": (ThreadServer(name="s", command="sh"),)}, True),
    ],
)
def test_what_makes_settings_less_strict(before: dict, after: dict, is_looser: bool) -> None:
    old = replace(HERE, **before)
    assert bool(loosened(old, replace(old, **after))) == is_looser


def test_an_endpoint_that_changes_something_cannot_be_made_without_a_role() -> None:
    async def handle(_: object) -> None: ...

    assert endpoint("GET /x", handle).needs == "observer"
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(TypeError, match="which role"):
            endpoint(f"{method} /x", handle)


def test_a_client_cannot_choose_who_it_is() -> None:
    bob = Actor(kind="token", name="bob", via="flint")
    assert with_client(bob, "hames-tui") == Actor(kind="token", name="bob", via="flint", client="hames-tui")
    assert with_client(Actor(kind="user", name="ann", via="flint"), "hames-tui").via == "terminal"
    named = with_client(bob, "a\x1b[31m\n" + "x" * 500)
    assert named.client.isprintable() and len(named.client) <= 80
    assert (named.kind, named.name) == ("token", "bob")


# -- the file


def test_tokens_are_kept_as_hashes_in_a_private_file(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    made = tokens.add("alice", "driver", now_ms=1000)
    assert tokens.path.stat().st_mode & 0o777 == 0o600
    assert made not in tokens.path.read_text()
    known = NamedTokens(tmp_path, FakeClock())
    assert (found := known.find(made)) is not None and (found.name, found.role) == ("alice", "driver")
    assert known.find(made + "x") is None
    with pytest.raises(InvalidCommand, match="already"):
        tokens.add("alice", "observer", now_ms=1000)


@pytest.mark.parametrize("name", ["", "owner", "a b", "../x", "a\n", "-x", "x" * 65, "ä"])
def test_names_that_could_be_taken_for_something_else_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidCommand):
        TokenFile(tmp_path).add(name, "driver", now_ms=0)


def test_a_token_ends_when_it_is_revoked_or_its_time_is_over(tmp_path: Path) -> None:
    clock, tokens = FakeClock(), TokenFile(tmp_path)
    short = tokens.add("short", "observer", now_ms=clock.now_ms(), lasts_ms=60_000)
    long = tokens.add("long", "approver", now_ms=clock.now_ms())
    known = NamedTokens(tmp_path, clock)
    assert known.find(short) and known.find(long)
    clock.advance(61)
    assert known.find(short) is None and known.find(long)
    again = tokens.add("short", "driver", now_ms=clock.now_ms())
    assert known.find(short) is None and known.find(again)
    assert tokens.revoke("long") and not tokens.revoke("long")
    assert known.find(long) is None


def test_a_file_that_others_may_write_lets_nobody_in(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    made = tokens.add("alice", "driver", now_ms=0)
    tokens.path.chmod(0o666)
    assert NamedTokens(tmp_path, FakeClock()).find(made) is None
    with pytest.raises(Misconfigured, match="0600"):
        tokens.read()


def test_a_caller_whose_token_is_gone_may_not_even_look() -> None:
    principal = Principal(Access(actor=Actor(kind="token", name="bob"), role="approver"), is_valid=lambda: False)
    with pytest.raises(NotPermitted, match="revoked"):
        principal.require("observer")
