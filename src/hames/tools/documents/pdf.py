"""The text of a PDF file, page by page.

A PDF may come from a stranger and take for ever to unfold, so it is read by a process of its own, with limits on
its time and memory.
"""

from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL

import anyio

from hames.executables import script_command
from hames.ports import ToolFailed

SECONDS = 30
MEMORY_BYTES = 1 << 30
MAX_PAGES = 500
MAX_CHARS = 2_000_000

_PROGRAM = Path(__file__).with_name("pdf_program.py")


async def pdf_text(name: str, content: bytes) -> str:
    """Raises `ToolFailed`."""
    library = find_spec("pypdf")
    if library is None or library.origin is None:
        raise ToolFailed(f"{name!r} is a PDF, and pypdf, which reads them, is not installed")
    limits = map(str, (SECONDS, MEMORY_BYTES, MAX_PAGES, MAX_CHARS))
    command = script_command(str(_PROGRAM), str(Path(library.origin).parent.parent), *limits)
    try:
        with anyio.fail_after(SECONDS):
            done = await anyio.run_process(command, input=content, stderr=DEVNULL, check=False, env={}, cwd="/")
    except TimeoutError:
        raise ToolFailed(f"{name!r} took longer than {SECONDS} s to read") from None
    if done.returncode == 3:
        raise ToolFailed(f"{name!r} is a PDF with a password")
    if done.returncode:
        raise ToolFailed(f"{name!r} is a PDF that cannot be read; use the shell to look into it")
    return done.stdout.decode(errors="replace").replace("\0", "␀")
