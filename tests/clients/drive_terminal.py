"""Runs inside a Python that has pyte: drives a terminal program like a person, waiting for what appears on the screen.

    drive_terminal.py STEPS PROGRAM ARGUMENTS…

STEPS is a JSON list: {"see": text} waits for text to be on the screen, with "times": that often; {"type": text} types
it, {"keep": name} keeps the screen as it is. The kept screens are printed as JSON; exit code 0: all was seen. With exit
code 1 the last screen is printed.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

import pyte

ROWS, COLUMNS, SECONDS = 50, 140, 40

steps, command = json.loads(sys.argv[1]), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
screen = pyte.Screen(COLUMNS, ROWS)
stream = pyte.ByteStream(screen)


def shown():
    return "\n".join(line.rstrip() for line in screen.display if line.strip())


def pump(seconds):
    if not select.select([terminal], [], [], seconds)[0]:
        return True
    try:
        data = os.read(terminal, 65536)
    except OSError:
        return False
    if b"\x1b[6n" in data:  # where is the cursor?
        os.write(terminal, b"\x1b[1;1R")
    if b"\x1b[c" in data:  # what are you?
        os.write(terminal, b"\x1b[?62;c")
    stream.feed(data)
    return bool(data)


def see(text, times):
    end = time.monotonic() + SECONDS
    while shown().count(text) < times:
        if time.monotonic() > end or not pump(0.1):
            return False
    return True


def perform(step):
    match step:
        case {"type": text}:
            settled = time.monotonic() + 0.7  # what is typed at once is taken for something pasted
            while time.monotonic() < settled:
                pump(0.1)
            os.write(terminal, text.encode())
        case {"keep": name}:
            kept[name] = shown()
        case {"see": text}:
            return see(text, step.get("times", 1))
    return True


kept, code = {}, 0
for step in steps:
    if not perform(step):
        print(f"it stayed at {step}", file=sys.stderr)
        code = 1
        break
print(shown() if code else json.dumps(kept))
os.kill(child, signal.SIGTERM)
os.close(terminal)
os.waitpid(child, 0)
sys.exit(code)
