"""A person is asked whether a command may reach a host: questions, answers, rules, in a real sandbox."""

from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace
from network_support import NAMES, ONLY_ALLOWED, OTHER, PUBLIC, StandIn, web_server
from test_network_access import Site
from walls import bubblewraps, run, workspace

from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.approvals import Harmless, RunCommand
from hames.domain.commands import InterruptTurn, ReadThread, ResolveApproval
from hames.domain.events import ApprovalRequested, ApprovalResolved, TurnEnded
from hames.domain.items import CommandExecution, ToolCall, ToolItem, ToolResult
from hames.domain.network import HostPort, NetworkRules
from hames.domain.policy import ApprovalPolicy, Decision, HostGrant, SandboxPolicy, WorkspaceWrite
from hames.domain.rules import Rule
from hames.domain.state import ThreadState
from hames.ports import Job, Tell, ToolSpec
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.trust.rules.book import FileRuleBook
from hames.sandbox.walls.network.destinations import Destination
from hames.sandbox.walls.network.host_gate import HostGate
from hames.testing.fakes.model import ScriptedModel, call
from hames.testing.fakes.model import say as reply
from situated_engine import results, situated_engine
from support import created, engine, question, started, turn_end, until

# A real sandbox


needs_walls = pytest.mark.needs("bwrap", "bash", "curl")


@needs_walls
async def test_named_hosts_are_reached_and_the_rest_fails_closed_with_a_sentence() -> None:
    with workspace() as here, web_server(Site) as port:
        for bubblewrap in bubblewraps()[:1]:
            outside = StandIn({name: list(found) for name, found in NAMES.items()}, {PUBLIC: port, OTHER: port})
            sandbox = LocalSandbox(SandboxSettings(bubblewrap=bubblewrap), outside=outside)
            command = (
                "curl -s http://allowed.test/page; curl -s http://denied.test/;"
                " curl -s --noproxy '*' -m 3 http://allowed.test/ || echo no way around: $?;"
                " (echo > /dev/tcp/93.184.216.34/80) 2>/dev/null || echo no raw socket"
            )
            done = await run(command, here, WorkspaceWrite(network=ONLY_ALLOWED), sandbox=sandbox)
            sandbox.close()
            assert "allowed.test/page" in done.text
            assert "no way around" in done.text
            assert "no raw socket" in done.text
            assert done.notes[0].startswith("network: reached allowed.test:80 (")
            assert done.notes[1].startswith("refused: denied.test:80 is not an allowed host")
            assert outside.dialled == [(PUBLIC, 80)]


@needs_walls
async def test_without_a_named_host_and_without_anybody_to_ask_there_is_no_network_at_all() -> None:
    with workspace() as here:
        sandbox = LocalSandbox(outside=StandIn())
        done = await run("echo proxy: $HTTP_PROXY", here, WorkspaceWrite(network=NetworkRules()), sandbox=sandbox)
        sandbox.close()
        assert done.text == "proxy:\n"


@pytest.mark.needs("bash")
async def test_where_hosts_cannot_be_named_a_command_runs_without_network() -> None:
    from hames.sandbox.walls import landlock

    if landlock.abi() == 0:
        pytest.skip("this kernel has no Landlock")
    with workspace() as here:
        sandbox = LocalSandbox(SandboxSettings(bubblewrap="/nonexistent/bwrap", allow_degraded=True))
        done = await run("echo ran $HTTP_PROXY", here, WorkspaceWrite(network=ONLY_ALLOWED), sandbox=sandbox)
        assert done.text == "ran\n"


# Questions of a real command


ASKING = WorkspaceWrite(network=NetworkRules())


def site_network(port: int) -> StandIn:
    return StandIn({"site.test": [[PUBLIC]], "other.test": [[PUBLIC]]}, {PUBLIC: port})


def asking_engine(model: ScriptedModel, here: Path, port: int) -> AbstractAsyncContextManager[Engine]:
    return situated_engine(model, here, policy="onRequest", sandbox=ASKING, outside=site_network(port))


async def answered(watcher: Watcher, house: Engine, decision: Decision, note: str = "") -> ApprovalRequested:
    asked = await question(watcher)
    await house.execute(ResolveApproval(approval_id=asked.approval.id, decision=decision, note=note))
    return asked


@needs_walls
async def test_a_person_allows_a_host_once_then_for_the_thread_and_then_is_not_asked_again() -> None:
    fetch = [call("shell", command="curl -sS http://site.test/page")]
    model = ScriptedModel(fetch, fetch, fetch, [reply("done")])
    with workspace() as here, web_server(Site) as port:
        async with asking_engine(model, here, port) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            first = await answered(watcher, house, "once")
            second = await answered(watcher, house, "always")
            await turn_end(watcher)
            state = await house.execute(ReadThread(thread_id=thread.id))
    intent = first.approval.intent
    assert isinstance(intent, RunCommand)
    assert (intent.connects_to, intent.command) == (
        HostPort(host="site.test", port=80),
        "curl -sS http://site.test/page",
    )
    assert first.approval.reason == "connects to site.test:80, which is not an allowed host"
    assert first.approval.item_id != second.approval.item_id
    assert isinstance(state, ThreadState)
    assert state.grants == (HostGrant(host="site.test", port=80),)
    told = results(model.requests[-1])
    assert len(told) == 3
    assert all("site.test/page" in text and "[network: reached site.test:80 (" in text for text in told)


@needs_walls
@pytest.mark.parametrize("policy", ["onRequest", "unlessTrusted"])
async def test_a_person_declines_a_host_and_the_command_is_told_in_one_sentence(policy: str) -> None:
    model = ScriptedModel([call("shell", command="curl -sS http://site.test/page")], [reply("done")])
    with workspace() as here, web_server(Site) as port:
        outside = site_network(port)
        async with situated_engine(model, here, policy=policy, sandbox=ASKING, outside=outside) as house:  # type: ignore[arg-type]
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            if policy == "unlessTrusted":
                await answered(watcher, house, "once")
            await answered(watcher, house, "reject", note="not today")
            await turn_end(watcher)
    (told,) = results(model.requests[-1])
    assert told.startswith("refused: site.test:80 was declined by the user (not today)\n")
    assert outside.dialled == []


@needs_walls
async def test_a_command_that_is_stopped_while_it_waits_takes_its_question_back() -> None:
    model = ScriptedModel([call("shell", command="curl -sS http://site.test/page", timeout_seconds=1)], [reply("done")])
    with workspace() as here, web_server(Site) as port:
        async with asking_engine(model, here, port) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            changes = await turn_end(watcher)
    resolved = [change.record.event for change in changes if isinstance(change.record.event, ApprovalResolved)]
    assert [event.decision for event in resolved] == ["void"]
    assert changes[-1].after.approvals == ()
    assert "killed: it ran longer than 1 s" in results(model.requests[-1])[0]


@needs_walls
async def test_a_turn_that_is_interrupted_while_a_connection_waits_keeps_that_the_command_ran() -> None:
    model = ScriptedModel([call("shell", command="curl -sS http://site.test/page")], [reply("done")])
    with workspace() as here, web_server(Site) as port:
        async with asking_engine(model, here, port) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            await question(watcher)
            await house.execute(InterruptTurn(thread_id=thread.id))
            changes = await until(watcher, lambda event: isinstance(event, TurnEnded))
    last = changes[-1].after
    assert last.approvals == ()
    assert last.turns[-1].unanswered == ()
    (item,) = (item for item in last.turns[-1].items if isinstance(item, CommandExecution))
    assert item.status == "interrupted"


@needs_walls
async def test_a_process_in_the_background_reaches_named_hosts_and_asks_nobody() -> None:
    command = "curl -sS http://site.test/page; curl -sS http://other.test/"
    model = ScriptedModel([call("shell", command=command, background=True)], [reply("done")])
    rules = WorkspaceWrite(network=NetworkRules(allow=("site.test",)))
    with workspace() as here, web_server(Site) as port:
        async with situated_engine(model, here, policy="onRequest", sandbox=rules, outside=site_network(port)) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            changes = await turn_end(watcher)
    assert not any(isinstance(change.record.event, ApprovalRequested) for change in changes)
    assert "site.test/page" in results(model.requests[-1])[0]


@needs_walls
async def test_a_page_is_fetched_by_the_same_rules_and_a_redirect_is_asked_about() -> None:
    class Moved(Site):
        def do_GET(self) -> None:
            if self.headers["Host"] == "site.test" and self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "http://other.test/there")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                super().do_GET()

    fetch = [call("web_fetch", url="http://site.test/moved")]
    model = ScriptedModel(fetch, fetch, [reply("done")])
    with workspace() as here, web_server(Moved) as port:
        async with asking_engine(model, here, port) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            hosts: list[str] = []
            for decision in ("always", "once", "reject"):
                asked = (await answered(watcher, house, decision)).approval.intent
                assert isinstance(asked, RunCommand)
                hosts.append(str(asked.connects_to))
            changes = await turn_end(watcher)
    assert hosts == ["site.test:80", "other.test:80", "other.test:80"]
    first, second = (item for item in changes[-1].after.turns[-1].items if isinstance(item, ToolCall))
    assert first.result is not None
    assert "other.test/there" in first.result.text
    assert second.result is not None
    assert "refused: other.test:80 was declined by the user" in second.result.text


class ConnectingTool:
    """A tool whose command wants to connect somewhere, and that waits for the answer a moment only."""

    spec = ToolSpec(name="connect", description="Connects.", schema={"type": "object"})

    async def prepare(self, job: Job) -> "ConnectingTool":
        self.item = ToolCall(id=job.item_id, step=job.step, call_id=job.call.id, name="connect", arguments={})
        self.intent = Harmless()
        self._ask = job.ask_host
        return self

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:
        assert isinstance(self._ask, partial)
        why = await self._ask("connect", "/", HostPort(host="new.test", port=443), seconds=0.05)
        return replace(self.item, status="completed", result=ToolResult(text=why))


async def test_a_connection_that_nobody_answers_for_is_refused_after_its_time_and_the_question_taken_back() -> None:
    model = ScriptedModel([call("connect")], [reply("done")])
    async with engine(model, ConnectingTool(), policy="onRequest") as house:
        thread = await created(house, sandbox=ASKING)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        changes = await turn_end(watcher)
    assert results(model.requests[-1]) == ["is not an allowed host, and nobody answered within 0.05 s"]
    resolved = [change.record.event for change in changes if isinstance(change.record.event, ApprovalResolved)]
    assert [event.decision for event in resolved] == ["void"]


# Rules about hosts


OPEN = WorkspaceWrite(network_access=True)


HIDDEN_NAME = "h=site; curl -sS http://$h.test/page"
"""The rules cannot read the host out of it, so it is the connection that is asked about."""


def no_rules(_: str) -> tuple[Rule, ...]:
    return ()


@needs_walls
@pytest.mark.parametrize(
    ("sandbox", "pattern"),
    [(OPEN, "site.test"), (WorkspaceWrite(network=NetworkRules(allow=("site.test",))), "*.site.test")],
    ids=["every-host", "allowed-host"],
)
async def test_a_rule_asks_about_a_host_that_the_sandbox_allows(sandbox: SandboxPolicy, pattern: str) -> None:
    model = ScriptedModel(*[[call("shell", command=HIDDEN_NAME)]] * 2, [reply("done")])
    book = FileRuleBook(no_rules, lambda rule: rule)
    with workspace() as here, web_server(Site) as port:
        outside = site_network(port)
        async with situated_engine(
            model, here, policy="onRequest", sandbox=sandbox, outside=outside, rulebook=book
        ) as house:
            thread = await created(house, rules=(Rule(action="ask", host=pattern),))
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            first = await answered(watcher, house, "always")
            await answered(watcher, house, "reject", "not now")
            await turn_end(watcher)
    assert first.approval.reason.startswith(f"`site.test` is asked about by the rule ask host `{pattern}`")
    allowed, declined = results(model.requests[-1])
    assert "[network: reached site.test:80 (" in allowed
    assert "refused: site.test:80 was declined by the user (not now)" in declined


@needs_walls
async def test_a_command_that_names_the_host_is_asked_about_once() -> None:
    model = ScriptedModel([call("shell", command="curl -sS http://site.test/page")], [reply("done")])
    book = FileRuleBook(no_rules, lambda rule: rule)
    with workspace() as here, web_server(Site) as port:
        outside = site_network(port)
        async with situated_engine(
            model, here, policy="onRequest", sandbox=OPEN, outside=outside, rulebook=book
        ) as house:
            thread = await created(house, rules=(Rule(action="ask", host="site.test"),))
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            first = await answered(watcher, house, "once")
            rest = await until(watcher, lambda event: isinstance(event, TurnEnded))
    intent = first.approval.intent
    assert isinstance(intent, RunCommand) and intent.connects_to is None
    assert not any(isinstance(change.record.event, ApprovalRequested) for change in rest)
    [told] = results(model.requests[-1])
    assert "[network: reached site.test:80 (" in told


@needs_walls
@pytest.mark.parametrize(("action", "policy"), [("deny", "onRequest"), ("ask", "never")])
async def test_no_rule_about_a_host_is_passed_by_a_name_that_it_covers(
    action: Literal["deny", "ask"], policy: ApprovalPolicy
) -> None:
    """In a rule `*.site.test` is about `site.test`, too."""
    model = ScriptedModel([call("shell", command=HIDDEN_NAME)], [reply("done")])
    book = FileRuleBook(no_rules, lambda rule: rule)
    with workspace() as here, web_server(Site) as port:
        outside = site_network(port)
        async with situated_engine(model, here, policy=policy, sandbox=OPEN, outside=outside, rulebook=book) as house:
            thread = await created(house, rules=(Rule(action=action, host="*.site.test"),))
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            await turn_end(watcher)
    [told] = results(model.requests[-1])
    assert "refused: site.test:80" in told
    assert "reached" not in told


async def test_an_address_is_no_way_around_a_host_that_is_asked_about() -> None:
    gate = HostGate(NetworkRules(ask=("site.test",)), every_host=True)
    assert "address" in await gate.refusal(Destination(host=PUBLIC, port=80))
    assert await gate.refusal(Destination(host="other.test", port=80)) == ""
    assert "by a rule" in await gate.refusal(Destination(host="site.test", port=8443))
