"""`shell`: a command, run behind the sandbox, its output streamed and bounded.

Nothing it started outlives the call: when the command ends, when its time is up
and when the turn is stopped, everything below it is ended before `run` returns.
With `background` it outlives the call, and the tool `process` goes on with it.
"""

import signal
from functools import partial

import anyio
from msgspec.structs import replace

from hames import ports
from hames.domain.approvals import RunCommand
from hames.domain.errors import SandboxUnavailable
from hames.domain.items import CommandExecution, ToolItem, ToolResult
from hames.domain.network import NetworkRules
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.processes import ProcessStatus
from hames.domain.value import Value
from hames.tools.background import BackgroundProcesses
from hames.tools.command_hints import limit_hints, looks_hidden
from hames.tools.files.places import PATH, encodable, locate, relative
from hames.tools.headtail import HeadTail
from hames.tools.host_questions import HostQuestions
from hames.tools.output_files import OutputFiles, OutputSpool
from hames.tools.plain_output import PlainOutput
from hames.tools.script_files import ScriptFiles, is_plain_word, script_files
from hames.tools.works import off_the_loop

LAST_WORDS_SECONDS = 5
FIRST_WORDS_SECONDS = 1.5
FIRST_QUIET_SECONDS = 0.3
"""How long a start in the background waits for output, and for a pause in it."""

MAX_COMMAND_BYTES = 128 * 1024 - 1
"""What Linux takes as one argument."""

WALL_SIGNS = (
    "read-only file system",
    "operation not permitted",
    "permission denied",
    "network is unreachable",
    "could not resolve",
    "name or service not known",
    "temporary failure in name resolution",
    "connection refused",
    "no route to host",
    "tunnel failed",
    "proxyerror",
    "getaddrinfo",
    "unknownhost",
    "econnrefused",
    "enetunreach",
)
"""What programs say when they meet the sandbox. They say it for other reasons, too: it only earns a hint."""


_ASK_AGAIN = "ask again with `unsandboxed` and a `justification`"


class ShellLimits(Value):
    default_seconds: float = 120.0
    max_seconds: float = 600.0
    kept_bytes: int = 1 << 20
    """Of the output, for people."""
    told_bytes: int = 30_000
    """Of the output, for the model."""
    processes: int = 4096
    memory_bytes: int | None = None
    """None: three quarters of the machine's memory."""
    file_bytes: int = 16 << 30


class ShellTool:
    def __init__(
        self,
        sandbox: ports.Sandbox,
        clock: ports.Clock,
        limits: ShellLimits,
        background: BackgroundProcesses,
        files: OutputFiles,
    ) -> None:
        self.sandbox = sandbox
        self.background = background
        self.files = files
        self.clock = clock
        self.limits = limits
        # Not `writes`: what a command may change is the sandbox's to say, and whoever only reads has a read-only one.
        self.spec = ports.ToolSpec(
            name="shell",
            description=_DESCRIPTION,
            schema=_schema(limits),
            sandboxed=_SANDBOXED,
            asking=("unsandboxed", "justification"),
        )

    async def prepare(self, job: ports.Job) -> ports.Work:
        arguments = job.arguments
        command: str = arguments["command"]
        why: str = arguments.get("justification", "").strip()
        if "\0" in command:
            raise ports.ToolFailed("`command` has a NUL character")
        if not encodable(command):
            raise ports.ToolFailed("`command` has a lone surrogate, which is no character")
        if len(command.encode()) > MAX_COMMAND_BYTES:
            raise ports.ToolFailed(
                f"`command` is longer than {MAX_COMMAND_BYTES:,} bytes; write it into a file and run that"
            )
        if arguments.get("unsandboxed") and not why and job.place.can_leave:
            raise ports.ToolFailed("to leave the sandbox, say why in `justification`: a person decides on it")
        cwd = _directory(job, arguments["cwd"]) if arguments.get("cwd") else job.place.cwd
        item = CommandExecution(id=job.item_id, step=job.step, call_id=job.call.id, command=command, cwd=cwd)
        unsandboxed = bool(arguments.get("unsandboxed"))
        scripts = await self._scripts(command, cwd, job.place.sandbox, unsandboxed=unsandboxed)
        intent = RunCommand(
            command=command,
            cwd=cwd,
            unsandboxed=unsandboxed,
            why=why,
            scripts=scripts.files,
            repeatable=scripts.complete,
        )
        terminal = bool(arguments.get("terminal"))
        background = bool(arguments.get("background")) or terminal
        default = 0 if background else self.limits.default_seconds
        seconds = min(arguments.get("timeout_seconds") or default, self.limits.max_seconds)
        launch = ports.Launch(
            argv=("/bin/bash", "--noprofile", "--norc", "-c", command),
            cwd=cwd,
            workspace=job.place.workspace,
            policy=job.place.sandbox,
            limits=ports.Limits(
                seconds=seconds,
                processes=self.limits.processes,
                memory_bytes=self.limits.memory_bytes,
                file_bytes=self.limits.file_bytes,
            ),
            background=background,
            terminal=ports.TerminalSize() if terminal else None,
            thread=job.place.thread_id,
            hidden=tuple(rule.read for rule in job.place.denied if rule.read),
            read_only=tuple(rule.write for rule in job.place.denied if rule.write),
        )
        kind = _BackgroundCommand if background else _Command
        # The answer to a question would come after the call: a process in the background reaches named hosts only.
        ask_host = None if background else job.ask_host
        return kind(self, item, intent, launch, place=job.place, ask_host=ask_host)

    async def _scripts(self, command: str, cwd: str, policy: SandboxPolicy, *, unsandboxed: bool) -> ScriptFiles:
        """Behind walls only what it runs counts, so that editing a test does not ask about the tests again."""
        if is_plain_word(command):
            return ScriptFiles()
        unwalled = unsandboxed or isinstance(policy, DangerFullAccess | ExternalSandbox)
        return await off_the_loop(partial(script_files, command, cwd, every=unwalled))


class _Command:
    def __init__(
        self,
        shell: ShellTool,
        item: CommandExecution,
        intent: RunCommand,
        launch: ports.Launch,
        *,
        place: ports.Place,
        ask_host: ports.AskHost | None,
    ) -> None:
        self.item = item
        self._terminals = place.terminals
        self._ask_host = ask_host
        self.intent = intent
        self._launch = launch
        self._can_leave = place.can_leave
        self._sandbox = shell.sandbox
        self._clock = shell.clock
        self._background = shell.background
        self._kept = HeadTail(limit=shell.limits.kept_bytes)
        self._brief = HeadTail(limit=shell.limits.told_bytes)
        self._plain = PlainOutput()
        self._spool = OutputSpool(shell.files, shell.limits.told_bytes)
        self._model_text = ""
        self._timed_out = False
        self._notes: tuple[str, ...] = ()

    async def run(self, tell: ports.Tell, policy: SandboxPolicy) -> ToolItem:
        async with HostQuestions(self._ask_host, policy, command=self.item.command, cwd=self.item.cwd) as hosts:
            return await self._run(tell, replace(self._launch, policy=policy), hosts.ask)

    async def _run(self, tell: ports.Tell, launch: ports.Launch, ask_host: ports.AskSandboxHost | None) -> ToolItem:
        started = self._clock.monotonic()
        try:
            process = await self._start_in_editor(launch) or await self._sandbox.spawn(launch, ask_host=ask_host)
        except (OSError, SandboxUnavailable, ports.ToolFailed) as error:
            return self._not_started(str(error))
        try:
            code = await self._follow(process, tell)
        finally:
            # Also when we are being stopped: the tree ends first, and what it had said is told.
            with anyio.move_on_after(LAST_WORDS_SECONDS, shield=True):
                await process.kill()
                await self._tell_the_end(process, tell)
        return self._ended(code, self._clock.monotonic() - started, launch.policy)

    async def _start_in_editor(self, launch: ports.Launch) -> ports.Process | None:
        """Only where nothing would hold the command back here either: no sandbox, no rule about files."""
        free = isinstance(launch.policy, DangerFullAccess) and not (launch.hidden or launch.read_only)
        if not free or self._terminals is None:
            return None
        return await self._terminals.start(self.item.id, launch.argv, launch.cwd)

    async def _follow(self, process: ports.Process, tell: ports.Tell) -> int:
        """Tells the output as it comes and returns the exit code."""
        code, failure = 0, None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._limit, process)
            try:
                async for chunk in process.output():
                    self._note_for_model(self._plain.feed(chunk))
                    if text := self._kept.feed(chunk):
                        await tell(text)
                code = await process.wait()
            except Exception as error:
                failure = error  # a task group would wrap it, and the engine looks at its type
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return code

    def _note_for_model(self, output: bytes) -> None:
        self._model_text += self._brief.feed(output)
        self._spool.feed(output)

    async def _limit(self, process: ports.Process) -> None:
        await anyio.sleep(self._launch.limits.seconds)
        self._timed_out = True
        await process.kill()

    async def _tell_the_end(self, process: ports.Process, tell: ports.Tell) -> None:
        # A sandbox may have something to say about what the command left behind; people should see it, too.
        self._notes = tuple(getattr(process, "notes", ()))
        if text := self._kept.finish() + "".join(f"[{note}]\n" for note in self._notes):
            await tell(text)

    def _ended(self, code: int, seconds: float, policy: SandboxPolicy) -> ToolItem:
        self._note_for_model(self._plain.finish())
        self._spool.close()
        output = self._model_text + self._brief.finish()
        outcome = self._outcome(code)
        facts = [outcome]
        if self._brief.omitted_bytes and (note := self._spool.note()):
            facts.append(note)
        failed = self._timed_out or code != 0
        if failed and (wall := _wall(policy)):
            if any(sign in output.lower() for sign in WALL_SIGNS):
                facts.append(f"it ran in the sandbox ({wall}); if that is the reason it failed, {self._way_out}")
            elif looks_hidden(output, cwd=self._launch.cwd, roots=(self._launch.workspace, *_roots(policy))):
                facts.append(
                    "outside the workspace the sandbox shows only the system's directories and known tools; if that is "
                    f"the reason it failed, {self._way_out}, or the user can show more with extra_read"
                )
        if failed:
            facts += limit_hints(output, code, self._launch.limits, policy)
        facts += self._notes
        text = output.replace("\0", "␀").rstrip("\n") or "(no output)"
        return replace(
            self.item,
            status="failed" if failed else "completed",
            exit_code=code,
            duration_ms=round(seconds * 1000),
            result=ToolResult(
                text="\n".join([text, *(f"[{fact}]" for fact in facts)]),
                failed=failed,
                reason=outcome if self._timed_out or code < 0 else "",
            ),
        )

    @property
    def _way_out(self) -> str:
        return _ASK_AGAIN if self._can_leave else "do without it"

    def _outcome(self, code: int) -> str:
        if self._timed_out:
            return f"killed: it ran longer than {self._launch.limits.seconds:g} s"
        if code < 0:
            return f"killed by {_signal_name(-code)}"
        if code > 128 and (name := _signal_name(code - 128)).startswith("SIG"):
            return f"exit code {code}: a program was killed by {name}"
        return f"exit code {code}"

    def _not_started(self, why: str) -> ToolItem:
        return replace(self.item, status="failed", result=ToolResult(text=f"not started: {why}", failed=True))


class _BackgroundCommand(_Command):
    """Returns when it has said something and paused, or has ended; it goes on by itself."""

    async def run(self, tell: ports.Tell, policy: SandboxPolicy) -> ToolItem:
        started = self._clock.monotonic()
        try:
            number = self._background.reserve()
        except ports.ToolFailed as error:
            return self._not_started(str(error))
        try:
            process = await self._sandbox.spawn(replace(self._launch, policy=policy))
            if not isinstance(process, ports.BackgroundProcess):
                await process.kill()
                raise ports.ToolFailed("this sandbox runs no processes in the background")
            about = ProcessStatus(
                number=number,
                command=self.item.command,
                cwd=self.item.cwd,
                terminal=self._launch.terminal is not None,
                running=True,
                seconds=0,
                output_bytes=0,
            )
            one = self._background.add(process, about, policy=policy, seconds=self._launch.limits.seconds)
        except (OSError, SandboxUnavailable, ports.ToolFailed) as error:
            return self._not_started(str(error))
        finally:
            self._background.release()
        await one.settle(quiet=FIRST_QUIET_SECONDS, most=FIRST_WORDS_SECONDS)
        ended, text = not one.running, one.take()
        one.first_words = text
        going_on = f"running in the background as process {number}"
        if text or not ended:
            gap = "\n" if text and not text.endswith("\n") else ""
            await tell(text if ended else f"{text}{gap}[{going_on}]\n")
        if ended:
            code = one.code if one.code is not None else -signal.SIGKILL
            one.end_was_told = True
            self._notes = tuple(one.notes)
            self._note_for_model(text.encode())
            return self._ended(code, self._clock.monotonic() - started, policy)
        facts = [f"{going_on}; go on with the tool `process`", *one.notes]
        one.notes.clear()
        words = [text.rstrip("\n") or "(no output yet)", *(f"[{fact}]" for fact in facts)]
        return replace(self.item, status="completed", result=ToolResult(text="\n".join(words)))


def _directory(job: ports.Job, cwd: str) -> str:
    spot = locate(job.place, cwd)
    with spot.open_root() as root:
        if not root.is_directory(spot.path):
            raise ports.ToolFailed(f"`cwd` {relative(job.place, spot.absolute)!r} is not a directory")
    return spot.absolute


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _roots(policy: SandboxPolicy) -> tuple[str, ...]:
    return policy.writable_roots if isinstance(policy, WorkspaceWrite) else ()


def _wall(policy: SandboxPolicy) -> str:
    match policy:
        case ReadOnly():
            return "nothing writable, no network"
        case WorkspaceWrite(network_access=False, hosts=NetworkRules()):
            return (
                "only the workspace is writable; the network is reached only through the HTTP proxy that HTTP_PROXY "
                "and HTTPS_PROXY name, and only allowed hosts; names cannot be looked up, and ssh and other raw "
                "connections do not work"
            )
        case WorkspaceWrite(network_access=True):
            return (
                "only the workspace is writable; the network is reached only through the HTTP proxy that HTTP_PROXY "
                "and HTTPS_PROXY name, and only public addresses; names cannot be looked up and ssh does not work"
            )
        case WorkspaceWrite():
            return "only the workspace is writable, no network"
        case _:
            return ""


_DESCRIPTION = (
    "Run a command with bash and read its output (stdout and stderr together) and exit code. "
    "It starts in the working directory, with no terminal and an empty stdin. "
    "Each call is a new shell: `cd` and variables do not last. "
    "Processes that it leaves behind (`&`) end with the command; for servers, watchers, REPLs, debuggers and long "
    "builds use `background` or `terminal`. Long output is cut in the middle and kept in a file. "
    "Prefer `read`, `grep`, `glob`, `edit` and `patch` for looking at files and changing them."
)

_SANDBOXED = (
    "It runs in a sandbox, which shows of the home directory only tools and their downloads. `/tmp` and the home "
    "directory are private and empty in each call."
)


def _schema(limits: ShellLimits) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "The command line, as bash reads it."},
            "description": {"type": "string", "description": "What it does, in a few words, for the person watching."},
            "cwd": {
                **PATH,
                "description": "Directory to run in, inside the workspace. Default: the working directory.",
            },
            "timeout_seconds": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": limits.max_seconds,
                "description": f"When to stop it. Default: {limits.default_seconds:g}; in the background: never.",
            },
            "background": {
                "type": "boolean",
                "description": "Let it run on after this call, with an open stdin; use it with `process`. Commands of "
                "later calls reach its ports on 127.0.0.1.",
            },
            "terminal": {"type": "boolean", "description": "The same with a terminal, for interactive programs."},
            "unsandboxed": {
                "type": "boolean",
                "description": "Ask to run outside the sandbox. Only after it failed because of the sandbox.",
            },
            "justification": {"type": "string", "description": "With `unsandboxed`: why, for the person who decides."},
        },
        "required": ["command"],
        "additionalProperties": False,
    }
