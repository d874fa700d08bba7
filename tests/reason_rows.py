"""Why something did not happen: an engine on which it happens, and the words that everybody must read."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from hames.core.engine import Engine
from hames.domain.approvals import RunCommand
from hames.domain.errors import SandboxUnavailable
from hames.domain.items import CommandExecution, ToolItem
from hames.domain.policy import SandboxPolicy
from hames.domain.rules import Rule
from hames.domain.servers import ServerStatus
from hames.ports import Job, Place, Report, Tell, Tool, ToolSpec
from hames.sandbox.trust.rules.book import FileRuleBook
from hames.testing.fakes.model import ScriptedModel, call, fail, say
from support import BROKEN, ECHO, engine

NO_SANDBOX = "bubblewrap is not installed: apt install bubblewrap"


class Shell:
    """A command that finds no sandbox."""

    spec = ToolSpec(name="shell", description="Runs.", schema={"type": "object"})

    async def prepare(self, job: Job) -> "ShellWork":
        return ShellWork(job)


class ShellWork:
    def __init__(self, job: Job) -> None:
        command = str(job.arguments["command"])
        self.item = CommandExecution(id=job.item_id, step=job.step, call_id=job.call.id, command=command, cwd="/")
        self.intent = RunCommand(command=command, cwd="/")

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:
        raise SandboxUnavailable(NO_SANDBOX)


class Servers:
    """Tools whose MCP servers report these states."""

    def __init__(self, *statuses: ServerStatus) -> None:
        self._statuses = statuses

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool]]:
        for status in self._statuses:
            await report(status)
        yield []


DENY = Rule(action="deny", command="git push *", source="config.toml:3")
BOOK = FileRuleBook(lambda _: (DENY,), lambda rule: rule)


def with_servers(*statuses: ServerStatus) -> Engine:
    made = engine(ScriptedModel([say("Done.")]))
    made._turns._loop.tools = Servers(*statuses)  # pyright: ignore[reportPrivateUsage]
    made._threads.rules = replace(made.rules, mcp_servers=("s",))  # pyright: ignore[reportPrivateUsage]
    return made


def with_warning() -> Engine:
    made = engine(ScriptedModel([say("Done.")]))
    words = "hames.toml is ignored because this project is not trusted. Run `hames trust`"
    made._threads.rules = replace(made.rules, warnings=(words,))  # pyright: ignore[reportPrivateUsage]
    return made


SLOW = ServerStatus(name="s", state="starting", waited=True)
ROWS: dict[str, tuple[Callable[[], Engine], str]] = {
    "refused by a rule": (
        lambda: engine(
            ScriptedModel([call("shell", command="git push")], [say("Done.")]), Shell(), policy="never", rulebook=BOOK
        ),
        "denied by the rule deny `git push *` (config.toml:3)",
    ),
    "refused because nobody is asked": (
        lambda: engine(
            ScriptedModel([call("shell", command="$x push")], [say("Done.")]), Shell(), policy="never", rulebook=BOOK
        ),
        "approvals are off (`never`)",
    ),
    "failed tool": (lambda: engine(ScriptedModel([call("broken")], [say("Done.")]), BROKEN), "it broke"),
    "no sandbox": (
        lambda: engine(ScriptedModel([call("shell", command="ls")], [say("Done.")]), Shell(), policy="never"),
        NO_SANDBOX,
    ),
    "dead MCP server": (
        lambda: with_servers(ServerStatus(name="s", state="failed", reason="it exited with code 3")),
        "it exited with code 3",
    ),
    "slow MCP server": (lambda: with_servers(SLOW, replace(SLOW, state="ready")), "starting MCP server"),
    "ignored configuration": (with_warning, "Run `hames trust`"),
    "skipped call": (
        lambda: engine(ScriptedModel([call("broken"), call("echo", x=1)], [say("Done.")]), BROKEN, ECHO),
        "skipped: an earlier call of the same reply failed",
    ),
    "stopped reply": (
        lambda: engine(ScriptedModel([fail("the service closed the connection")])),
        "the service closed the connection",
    ),
}
