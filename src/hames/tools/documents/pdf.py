"""The text of a PDF file, page by page.

A PDF may come from a stranger and take for ever to unfold, so it is read by a process of its own, with limits on
its time and memory.
"""

import sys
from subprocess import DEVNULL

import anyio

from hames.ports import ToolFailed

SECONDS = 30
MEMORY_BYTES = 1 << 30
MAX_PAGES = 500
MAX_CHARS = 2_000_000

_PROGRAM = f"""
import io, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
import logging
logging.disable(logging.CRITICAL)
from pypdf import PdfReader
reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
if reader.is_encrypted and not reader.decrypt(""):
    sys.exit(3)
left = {MAX_CHARS}
for number, page in enumerate(reader.pages, 1):
    if number > {MAX_PAGES} or left <= 0:
        print("[the rest of the document is not shown]")
        break
    text = (page.extract_text() or "(no text on this page)").encode(errors="replace").decode()[:left]
    left -= len(text)
    print(f"# page {{number}} of {{len(reader.pages)}}", text, "", sep=chr(10))
"""


async def pdf_text(name: str, content: bytes) -> str:
    """Raises `ToolFailed`."""
    command = [sys.executable, "-I", "-X", "utf8", "-c", _PROGRAM]
    try:
        with anyio.fail_after(SECONDS):
            done = await anyio.run_process(command, input=content, stderr=DEVNULL, check=False, env={})
    except TimeoutError:
        raise ToolFailed(f"{name!r} took longer than {SECONDS} s to read") from None
    if done.returncode == 3:
        raise ToolFailed(f"{name!r} is a PDF with a password")
    if done.returncode:
        raise ToolFailed(f"{name!r} is a PDF that cannot be read; use the shell to look into it")
    return done.stdout.decode(errors="replace").replace("\0", "␀")
