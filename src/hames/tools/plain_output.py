"""What a terminal would show of a program's output, for the model: no colours, no escapes, no progress bar's past.

People see the stream as it is. A model would pay for every frame of a progress bar and read nothing new in it.
"""

from hames.deferred import pattern

_ESCAPES = pattern(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    rb"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\|(?=[\x1b\n]|$))"  # titles, links
    rb"|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"
    rb"|\x1b[ -/]*[0-~]?"
)
_UNFINISHED = pattern(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]{0,2000}|[ -/]*)?\Z")
_TO_LINE_START = pattern(rb"\x1b\[(?:[01]?G|2K)")
"""What spinners do instead of a carriage return."""
_BELL = b"\x07"
_LONGEST_LINE = 64 * 1024


def plain(output: bytes) -> bytes:
    r"""
    >>> plain(b"\x1b[31mred\x1b[0m\r\n 10%\r 50%\r100%\ndone")
    b'red\n100%\ndone'
    """
    if not any(mark in output for mark in (b"\x1b", b"\r", b"\b", _BELL)):
        return output
    text = _ESCAPES.sub(b"", _TO_LINE_START.sub(b"\r", output)).replace(_BELL, b"")
    return b"\n".join(map(_last_state, text.split(b"\n")))


def complete_end(output: bytes) -> int:
    """How much of it can be told now: neither half a character nor half an escape at its end."""
    end = len(output)
    if found := _UNFINISHED.search(output, max(0, end - 2048)):
        end = found.start()
    for back in range(1, min(4, end + 1)):
        byte = output[end - back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return end - back if length > back else end
    return end


def _last_state(line: bytes) -> bytes:
    """A line as it looks when all of it has been printed."""
    if b"\r" in line:
        line = next((part for part in reversed(line.split(b"\r")) if part.strip()), b"")
    if b"\b" in line:
        shown = bytearray()
        for byte in line:
            if byte != 0x08:
                shown.append(byte)
            elif shown:
                shown.pop()
        line = bytes(shown)
    return line


class PlainOutput:
    """The same for a stream. What `feed` and `finish` return, put together, is the plain text of all of it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        if not self._rest and chunk.endswith(b"\n"):
            return plain(chunk)
        self._rest += chunk
        end = self._rest.rfind(b"\n") + 1
        if not end and len(self._rest) > _LONGEST_LINE:
            # Of a progress bar nothing but its last state counts; a long line that is none goes on.
            end = self._rest.rfind(b"\r")
            if end > 0:
                self._rest = self._rest[end:]
                return b""
            end = complete_end(self._rest)
        lines, self._rest = self._rest[:end], self._rest[end:]
        return plain(lines)

    def finish(self) -> bytes:
        rest, self._rest = self._rest, b""
        return plain(rest)
