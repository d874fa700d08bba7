"""`process`: goes on with what `shell` started in the background: its output, its input, its end."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from hames.domain.approvals import Harmless, Intent, RunCommand
from hames.domain.items import CommandExecution, ToolCall, ToolItem, ToolResult
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy
from hames.domain.processes import ProcessStatus, first_line, outcome
from hames.ports import Job, Tell, TerminalSize, ToolFailed, ToolSpec, Work
from hames.tools.background import SIGNALS, BackgroundProcesses, RunningCommand
from hames.tools.files.places import encodable
from hames.tools.works import Looking

MAX_INPUT_CHARS = 64 * 1024
MAX_WAIT_SECONDS = 600
DEFAULT_WAIT_SECONDS = 30
_ANSWER_SECONDS = 3.0
_QUIET_SECONDS = 0.3


class ProcessTool:
    spec = ToolSpec(
        name="process",
        description=(
            "Go on with a process that runs in the background. Every action tells the output since the last time, "
            'and whether it still runs. "poll" does nothing else. "write" types `input` (end a line with a newline; '
            '\\u0003 is Ctrl-C in a terminal) and waits for an answer. "wait" waits until `until` appears in the '
            'output, or the process ends. "signal" sends `signal` to it; KILL ends it. "resize" changes its terminal. '
            '"list" names all processes of this thread. They end with the thread.'
        ),
        schema={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["poll", "write", "wait", "signal", "resize", "list"]},
                "process": {"type": "integer", "minimum": 1, "description": "Its number. For all but `list`."},
                "input": {"type": "string", "maxLength": MAX_INPUT_CHARS, "description": "For `write`."},
                "close_input": {"type": "boolean", "description": "With `write`: end of input after it."},
                "until": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "For `wait` and `write`: plain text to wait for in the new output.",
                },
                "timeout_seconds": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": MAX_WAIT_SECONDS,
                    "description": f"How long to wait. Default: {DEFAULT_WAIT_SECONDS}.",
                },
                "signal": {"type": "string", "enum": list(SIGNALS)},
                "rows": {"type": "integer", "minimum": 1, "maximum": 1000},
                "columns": {"type": "integer", "minimum": 1, "maximum": 1000},
            },
            "required": ["action"],
            "additionalProperties": False,
        },
    )

    def __init__(self, processes: BackgroundProcesses) -> None:
        self.processes = processes

    async def prepare(self, job: Job) -> Work:
        given = job.arguments
        if given["action"] == "list":
            return Looking(job, self._list)
        if "process" not in given:
            raise ToolFailed(f"`{given['action']}` needs `process`, the number of one; `list` names them")
        one = self.processes.find(given["process"])
        match given["action"]:
            case "write":
                return self._prepare_write(job, one)
            case "wait":
                return _Step(job, one, lambda: _wait(one, given.get("until"), _seconds(job)))
            case "signal":
                if "signal" not in given:
                    raise ToolFailed("`signal` needs `signal`, such as INT, TERM or KILL")
                if given["signal"] != "KILL":  # a program may do anything when it gets another one
                    _refuse_where_nothing_changes(one, job.place.sandbox)
                return _Step(job, one, lambda: self._signal(one, given["signal"]))
            case "resize":
                if not {"rows", "columns"} <= given.keys():
                    raise ToolFailed("`resize` needs `rows` and `columns`")
                _refuse_where_nothing_changes(one, job.place.sandbox)
                size = TerminalSize(rows=given["rows"], columns=given["columns"])
                return _Step(job, one, lambda: _resize(one, size))
            case _:
                return _Step(job, one, _nothing)

    async def _list(self, _: SandboxPolicy) -> ToolResult:
        lines = [_line(status) for status in self.processes.statuses()]
        return ToolResult(text="\n".join(lines) or "no process has been started in the background")

    def _prepare_write(self, job: Job, one: RunningCommand) -> Work:
        text: str = job.arguments.get("input", "")
        closes = bool(job.arguments.get("close_input"))
        if not text and not closes:
            raise ToolFailed("`write` needs `input`, or `close_input`")
        if not encodable(text):
            raise ToolFailed("`input` has a lone surrogate, which is no character")
        if not one.running:
            raise ToolFailed(f"process {one.number} has ended with {outcome(one.code)}")
        _refuse_wider(one, job.place.sandbox)
        return _Write(job, one, text, closes=closes)

    async def _signal(self, one: RunningCommand, name: str) -> str:
        if not one.running:
            return ""
        if name == "KILL":
            await self.processes.end(one.number)
            return ""
        await one.process.send_signal(SIGNALS[name])
        await one.settle(quiet=_QUIET_SECONDS, most=1.0)
        return f"sent SIG{name}"


_Act = Callable[[], Awaitable[str]]


class _Step:
    """Something harmless with one process, then what it said."""

    def __init__(self, job: Job, one: RunningCommand, act: _Act) -> None:
        self.item = ToolCall(
            id=job.item_id, step=job.step, call_id=job.call.id, name=job.call.name, arguments=job.arguments
        )
        self.intent: Intent = Harmless()
        self._one = one
        self._act = act

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:  # noqa: ARG002
        try:
            fact = await self._act()
        except ToolFailed as failure:
            return replace(self.item, status="failed", result=ToolResult(text=str(failure), failed=True))
        _, result = _told(self._one, [fact] if fact else [])
        return replace(self.item, status="completed", result=result)


class _Write:
    """Input for a process: judged like a command, because a shell or an interpreter may be what reads it."""

    def __init__(self, job: Job, one: RunningCommand, text: str, *, closes: bool) -> None:
        shown = text or "[end of input]"
        self.item = CommandExecution(
            id=job.item_id, step=job.step, call_id=job.call.id, command=shown, cwd=one.status().cwd
        )
        unsandboxed = isinstance(one.policy, DangerFullAccess | ExternalSandbox)
        walled = not isinstance(job.place.sandbox, DangerFullAccess | ExternalSandbox)
        self.intent = RunCommand(
            command=shown,
            cwd=one.status().cwd,
            unsandboxed=unsandboxed and walled,
            repeatable=False,
            process=f"process {one.number}: {first_line(one.command)}",
        )
        self._job = job
        self._one = one
        self._text = text
        self._closes = closes

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:  # noqa: ARG002
        one, data, facts = self._one, self._text.encode(), list[str]()
        one.first_words = None
        taken = await one.process.write(data) if data else 0
        if taken < len(data):
            facts.append(f"it took {taken:,} of {len(data):,} bytes: it does not read its input")
        if self._closes:
            one.process.close_input()
        if "until" in self._job.arguments:
            facts.append(await _wait(one, self._job.arguments["until"], _seconds(self._job)))
        else:
            await one.settle(quiet=_QUIET_SECONDS, most=_ANSWER_SECONDS)
        text, result = _told(one, [fact for fact in facts if fact])
        if text:
            await tell(text)
        return replace(self.item, status="completed", exit_code=one.code, result=result)


async def _nothing() -> str:
    return ""


async def _wait(one: RunningCommand, text: str | None, seconds: float) -> str:
    if text is None:
        await one.until(lambda: not one.running, seconds)
        return ""
    if await one.until(lambda: one.has(text), seconds):
        return ""
    return f"{text!r} did not appear" + (f" within {seconds:g} s" if one.running else "")


async def _resize(one: RunningCommand, size: TerminalSize) -> str:
    try:
        one.process.resize(size)
    except OSError as error:
        raise ToolFailed(f"process {one.number} cannot be resized: {error}") from error
    await one.settle(quiet=_QUIET_SECONDS, most=_QUIET_SECONDS)
    return f"its terminal has {size.rows} rows and {size.columns} columns"


def _told(one: RunningCommand, facts: Sequence[str]) -> tuple[str, ToolResult]:
    status = one.status()
    text = one.take()
    one.first_words = None
    notes, one.notes[:] = list(one.notes), []
    one.end_was_told = one.end_was_told or not status.running
    if status.running:
        state = f"process {one.number} is running ({status.seconds:g} s)"
    else:
        state = f"process {one.number}: {one.stopped_for or f'ended with {outcome(one.code)}'}"
    words = [text.rstrip("\n") or "(no new output)", *(f"[{fact}]" for fact in (*facts, *notes, state))]
    return text, ToolResult(text="\n".join(words))


def _line(status: ProcessStatus) -> str:
    state = f"running for {status.seconds:g} s" if status.running else f"ended with {outcome(status.exit_code)}"
    terminal = ", terminal" if status.terminal else ""
    return f"{status.number}: {first_line(status.command)} ({state}{terminal}, {status.output_bytes:,} bytes of output)"


def _seconds(job: Job) -> float:
    return float(job.arguments.get("timeout_seconds", DEFAULT_WAIT_SECONDS))


def _refuse_wider(one: RunningCommand, policy: SandboxPolicy) -> None:
    """A process keeps the sandbox it was started in. Input is not a way around a sandbox that is tighter now."""
    free = isinstance(one.policy, ReadOnly | DangerFullAccess | ExternalSandbox)
    if free or one.policy == policy or isinstance(policy, DangerFullAccess | ExternalSandbox):
        return
    raise ToolFailed(
        f"process {one.number} was started in another sandbox than this thread has now, so it gets no input; "
        "read its output with `poll` or end it with the signal KILL"
    )


def _refuse_where_nothing_changes(one: RunningCommand, policy: SandboxPolicy) -> None:
    """A process that was started when files could be changed may change some when it gets a signal."""
    if one.running and isinstance(policy, ReadOnly) and not isinstance(one.policy, ReadOnly):
        raise ToolFailed(
            f"process {one.number} may change files, and the sandbox is read-only now, so it gets no signal but KILL"
        )
