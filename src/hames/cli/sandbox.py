"""Run a command in the same sandbox as the agent's commands. Everything that it started is ended afterwards.

  hames sandbox -- ls -la
  hames sandbox --sandbox readOnly -- touch x          fails: nothing is writable
  hames sandbox --sandbox '{"type": "workspaceWrite", "networkAccess": true}' -- curl https://example.org

With networkAccess a command can reach public addresses through a proxy (named by HTTP_PROXY and HTTPS_PROXY), but not
this machine or its local network.

The command gets no input, a small environment, the visible part of your PATH and the limits in your configuration.
Its output goes to stdout, notes go to stderr.
Exit code: that of the command, 128 + the signal number if a signal ended it, 2 for a bad option, 1 without a sandbox.
"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hames.domain.policy import SandboxPolicy
    from hames.ports import Launch
    from hames.sandbox.local import LocalSandbox

DEFAULT = "workspaceWrite"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cwd", metavar="DIR", default=".", help="the workspace (default: here)")
    parser.add_argument(
        "--sandbox",
        metavar="POLICY",
        default=DEFAULT,
        help="readOnly, workspaceWrite, dangerFullAccess, externalSandbox, or a policy as JSON (default: %(default)s)",
    )
    parser.add_argument(
        "--allow-degraded", action="store_true", help="use Landlock, which is weaker, if bubblewrap is missing"
    )
    parser.add_argument(
        "--path", metavar="DIR", action="append", default=[], help="add this directory to the PATH of the command"
    )
    parser.add_argument(
        "--read", metavar="PATH", action="append", default=[], help="also show this file or directory to the command"
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        action="append",
        default=[],
        help="also show this directory; changes to it are thrown away",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD", help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    import os
    from pathlib import Path

    import anyio
    from msgspec.structs import replace

    from hames.app.toolbox import sandbox_settings, tool_limits
    from hames.config.load import load
    from hames.domain.errors import InvalidCommand, SandboxUnavailable
    from hames.ports import Launch, Limits, ToolFailed
    from hames.sandbox.local import LocalSandbox

    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    workspace = Path(args.cwd).resolve()
    if not argv:
        raise InvalidCommand("the command is missing; write it after '--'")
    if not workspace.is_dir():
        raise InvalidCommand(f"no directory {args.cwd!r}")
    policy = _policy(args.sandbox)
    options = load({"cwd": str(workspace)}, os.environ)
    configured = sandbox_settings(options)
    settings = replace(
        configured,
        allow_degraded=args.allow_degraded or configured.allow_degraded,
        extra_path=(*configured.extra_path, *args.path),
        extra_read=(*configured.extra_read, *map(_absolute, args.read)),
        extra_cache=(*configured.extra_cache, *map(_absolute, args.cache)),
    )
    shell = tool_limits(options).shell
    limits = Limits(processes=shell.processes, memory_bytes=shell.memory_bytes, file_bytes=shell.file_bytes)
    launch = Launch(argv=tuple(argv), cwd=str(workspace), workspace=str(workspace), policy=policy, limits=limits)
    try:
        return anyio.run(_follow, LocalSandbox(settings), launch)
    except ToolFailed as failure:
        raise SandboxUnavailable(str(failure)) from failure


async def _follow(sandbox: "LocalSandbox", launch: "Launch") -> int:
    import os
    import sys

    process = await sandbox.spawn(launch)
    try:
        async for chunk in process.output():
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(1, rest) :]
        code = await process.wait()
    finally:
        await process.kill()
    for note in process.notes:
        print(f"note: {note}", file=sys.stderr)
    return code if code >= 0 else 128 - code


def _absolute(path: str) -> str:
    from pathlib import Path

    return str(Path(path).expanduser().absolute())


def _policy(text: str) -> "SandboxPolicy":
    import msgspec

    from hames.domain import policy
    from hames.domain.errors import InvalidCommand

    source = text if text.lstrip().startswith("{") else msgspec.json.encode({"type": text}).decode()
    try:
        return msgspec.json.decode(source, type=policy.SandboxPolicy, strict=True)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InvalidCommand(f"{text!r} is not a sandbox policy: {error}") from error
