"""Whether the sandbox was proved to hold on this machine. `hames doctor` and `hames setup` try it out and note the
result; reading the note costs nothing, and it counts only for the same kernel and the same bubblewrap in PATH."""

import os
import platform
from pathlib import Path

import msgspec

from hames.domain.value import Value
from hames.executables import find_program
from hames.private_files import write_private

NAME = "sandbox-proof.json"


class SandboxProof(Value):
    kernel: str
    program: str
    changed_ns: int


def note_proof(state_dir: Path, *, holds: bool) -> None:
    """Keeps that the sandbox holds, or forgets that it did. Where nothing can be written, nothing is proved."""
    file = state_dir / NAME
    try:
        if holds:
            write_private(file, msgspec.json.encode(_here()))
        else:
            file.unlink(missing_ok=True)
    except OSError:
        return


def is_sandbox_proved(state_dir: Path) -> bool:
    try:
        return msgspec.json.decode((state_dir / NAME).read_bytes(), type=SandboxProof) == _here()
    except (OSError, msgspec.DecodeError):
        return False


def _here() -> SandboxProof:
    program = find_program("bwrap", path=os.environ.get("PATH"))
    try:
        changed = Path(program).stat().st_mtime_ns if program else 0
    except OSError:
        changed = 0
    return SandboxProof(kernel=platform.release(), program=program, changed_ns=changed)
