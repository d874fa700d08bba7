"""`command/exec` and `fs/*`: what Codex's clients do on the server's machine without a model.

All of it runs as programs in the sandbox of the thread that was opened last (before there is one, of the server's own
settings), so a client reaches what the agent's commands reach, and the sandbox refuses the rest.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from hames.codecs.jsonrpc_peer import Params
from hames.domain.commands import ProgramEnded, RunProgram
from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.domain.options import Settings
from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.protocols.flint.codex.policies import AnySandbox, sandbox_policy
from hames.protocols.flint.inbound import directory, read
from hames.protocols.flint.wire import Wire

MOST_SECONDS = 600.0
"""The requests behind it on the same connection wait so long."""
MOST_OUTPUT_BYTES = 32 << 20
MOST_WRITTEN_BYTES = 1 << 20
_PIECE = 96 << 10
"""No argument of a program may be longer than 128 KiB."""
_KINDS = {"regular file": "isFile", "regular empty file": "isFile", "directory": "isDirectory"}


class Exec(Wire):
    command: Annotated[list[str], Meta(min_length=1)]
    cwd: str | None = None
    env: dict[str, str | None] | None = None
    sandbox_policy: AnySandbox | None = None
    permission_profile: str | None = None
    timeout_ms: Annotated[int, Meta(ge=1)] | None = None
    disable_timeout: bool | None = None
    output_bytes_cap: Annotated[int, Meta(ge=0)] | None = None
    disable_output_cap: bool | None = None
    process_id: str | None = None
    tty: bool | None = None
    stream_stdin: bool | None = None
    stream_stdout_stderr: bool | None = None
    size: Json = None


class OnePath(Wire):
    path: str


class WriteFile(Wire):
    path: str
    data_base64: str


class CreateDirectory(Wire):
    path: str
    recursive: bool | None = None


class Remove(Wire):
    path: str
    recursive: bool | None = None
    force: bool | None = None


class Copy(Wire):
    source_path: str
    destination_path: str
    recursive: bool | None = None


def decode_program(method: str, params: Params, settings: Settings) -> RunProgram:
    """What the request does not say is as the thread has it. Raises `InvalidCommand`."""
    command = PROGRAMS[method](params)
    if member := _CHANGED.get(method):
        _check_place(params[member], member, settings)
    return RunProgram(
        argv=command.argv,
        cwd=command.cwd,
        workspace=settings.cwd,
        sandbox=command.sandbox or settings.sandbox,
        seconds=command.seconds,
        output_bytes=command.output_bytes,
    )


def program_result(method: str, ended: ProgramEnded) -> Json:
    """The answer. Raises `InvalidCommand` for a request about files that could not be carried out."""
    if method == "command/exec":
        # Both are one stream here, in the order in which they were written.
        return {"exitCode": ended.exit_code, "stdout": ended.output.decode(errors="replace"), "stderr": ""}
    if ended.exit_code:
        said = ended.output[-2000:].decode(errors="replace").strip()
        raise InvalidCommand(said or f"the request ended with the exit code {ended.exit_code}")
    match method:
        case "fs/readFile":
            if len(ended.output) > MOST_OUTPUT_BYTES:
                raise InvalidCommand(f"path: the file has more than {MOST_OUTPUT_BYTES:,} bytes")
            return {"dataBase64": base64.b64encode(ended.output).decode()}
        case "fs/readDirectory":
            return {"entries": [_entry(line) for line in ended.output.split(b"\0") if line]}
        case "fs/getMetadata":
            return _metadata(ended.output.decode(errors="replace"))
        case _:
            return {}


def _exec(params: Params) -> RunProgram:
    given = read(params, Exec)
    for name in ("tty", "streamStdin", "streamStdoutStderr", "size"):
        if params.get(name):
            raise InvalidCommand(f"{name}: is not supported; the output comes with the answer")
    if any("\0" in word for word in given.command):
        raise InvalidCommand("command: has a NUL character")
    if given.disable_timeout and given.timeout_ms is not None:
        raise InvalidCommand("disableTimeout: cannot be combined with timeoutMs")
    if given.disable_output_cap and given.output_bytes_cap is not None:
        raise InvalidCommand("disableOutputCap: cannot be combined with outputBytesCap")
    seconds = RunProgram(argv=()).seconds if given.timeout_ms is None else given.timeout_ms / 1000
    bytes_kept = RunProgram(argv=()).output_bytes if given.output_bytes_cap is None else given.output_bytes_cap
    return RunProgram(
        argv=(*_environment(given.env or {}), *given.command),
        cwd=directory(given.cwd),
        sandbox=sandbox_policy(given.sandbox_policy, given.permission_profile, member="sandboxPolicy"),
        seconds=MOST_SECONDS if given.disable_timeout else min(seconds, MOST_SECONDS),
        output_bytes=MOST_OUTPUT_BYTES if given.disable_output_cap else min(bytes_kept, MOST_OUTPUT_BYTES),
    )


def _environment(changes: dict[str, str | None]) -> list[str]:
    """The program that changes variables for the one behind it; nothing where there is nothing to change."""
    if not changes:
        return []
    for name, value in changes.items():
        if not name or "=" in name or "\0" in name + (value or "") or name.startswith("-"):
            raise InvalidCommand(f"env: {name!r} is not a variable")
    unset = [word for name, value in changes.items() if value is None for word in ("-u", name)]
    return ["env", *unset, *(f"{name}={value}" for name, value in changes.items() if value is not None)]


def _read_file(params: Params) -> RunProgram:
    path = _path(read(params, OnePath).path, "path")
    return RunProgram(argv=("cat", "--", path), output_bytes=MOST_OUTPUT_BYTES + 1)


def _write_file(params: Params) -> RunProgram:
    given = read(params, WriteFile)
    try:
        data = base64.b64decode(given.data_base64, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidCommand("dataBase64: is not base64") from None
    if len(data) > MOST_WRITTEN_BYTES:
        raise InvalidCommand(f"dataBase64: has more than {MOST_WRITTEN_BYTES:,} bytes")
    text = base64.b64encode(data).decode()
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    script = 'path=$1; shift; printf %s "$@" | base64 -d > "$path"'
    return RunProgram(argv=("sh", "-c", script, "sh", _path(given.path, "path"), *pieces))


def _read_directory(params: Params) -> RunProgram:
    path = _path(read(params, OnePath).path, "path")
    argv = ("find", f"{path.rstrip('/')}/", "-mindepth", "1", "-maxdepth", "1", "-printf", "%Y %f\\0")
    return RunProgram(argv=argv, output_bytes=MOST_OUTPUT_BYTES)


def _get_metadata(params: Params) -> RunProgram:
    path = _path(read(params, OnePath).path, "path")
    script = 'stat -c %F -- "$1" && stat -L -c "%F|%W|%Y" -- "$1"'
    return RunProgram(argv=("sh", "-c", script, "sh", path))


def _create_directory(params: Params) -> RunProgram:
    given = read(params, CreateDirectory)
    flags = () if given.recursive is False else ("-p",)
    return RunProgram(argv=("mkdir", *flags, "--", _path(given.path, "path")))


def _remove(params: Params) -> RunProgram:
    given = read(params, Remove)
    flags = [word for word, chosen in (("-r", given.recursive), ("-f", given.force)) if chosen is not False]
    return RunProgram(argv=("rm", *flags, "--", _path(given.path, "path")))


def _copy(params: Params) -> RunProgram:
    given = read(params, Copy)
    flags = ("-r",) if given.recursive else ()
    source, target = _path(given.source_path, "sourcePath"), _path(given.destination_path, "destinationPath")
    return RunProgram(argv=("cp", "-T", *flags, "--", source, target))


def _check_place(path: str, member: str, settings: Settings) -> None:
    """Outside the workspace a sandbox has directories of its own, where a change would succeed and be lost."""
    sandbox = settings.sandbox
    if not isinstance(sandbox, WorkspaceWrite | ReadOnly):
        return
    roots = (settings.cwd, *(sandbox.writable_roots if isinstance(sandbox, WorkspaceWrite) else ()))
    parts = _parts(path)
    if ".." in parts or not any(parts[: len(_parts(root))] == _parts(root) for root in roots):
        raise InvalidCommand(f"{member}: {path!r} is outside the workspace {settings.cwd!r}")


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _path(path: str, member: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise InvalidCommand(f"{member}: must be an absolute path")
    return path


def _entry(line: bytes) -> Json:
    kind, _, name = line.partition(b" ")
    return {
        "fileName": name.decode(errors="replace"),
        "isDirectory": kind == b"d",
        "isFile": kind == b"f",
    }


def _metadata(output: str) -> Json:
    itself, _, rest = output.strip().partition("\n")
    kind, born, changed = rest.split("|")
    found = _KINDS.get(kind)
    return {
        "isDirectory": found == "isDirectory",
        "isFile": found == "isFile",
        "isSymlink": itself == "symbolic link",
        "createdAtMs": max(0, int(born)) * 1000,
        "modifiedAtMs": int(changed) * 1000,
    }


_CHANGED = {
    "fs/writeFile": "path",
    "fs/createDirectory": "path",
    "fs/remove": "path",
    "fs/copy": "destinationPath",
}
"""The member that names what a request changes."""

PROGRAMS: dict[str, Callable[[Params], RunProgram]] = {
    "command/exec": _exec,
    "fs/readFile": _read_file,
    "fs/writeFile": _write_file,
    "fs/readDirectory": _read_directory,
    "fs/getMetadata": _get_metadata,
    "fs/createDirectory": _create_directory,
    "fs/remove": _remove,
    "fs/copy": _copy,
}
