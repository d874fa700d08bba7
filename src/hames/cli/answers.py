"""An answer that somebody types while an event loop runs.

A line is waited for on the terminal itself and not in a thread: a thread that reads cannot be stopped, so Ctrl+C would
do nothing until Enter, and what was typed next would be lost with it.
"""

import os
import sys

import anyio

LINE_BYTES = 4096


async def read_answer(question: str) -> str:
    """The line that was typed. Empty when the input ended."""
    sys.stderr.write(question)
    sys.stderr.flush()
    descriptor = sys.stdin.fileno()
    await anyio.wait_readable(descriptor)
    return os.read(descriptor, LINE_BYTES).decode(errors="replace").strip()
