"""Homes, sockets and older bubblewraps for the tests of what commands see of a machine."""

import os
import shlex
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from walls import bubblewraps

from hames.sandbox.local import LocalSandbox, SandboxSettings

CANARY = "canary-3f9a7c21"

SECRETS = Path(__file__).with_name("secret_names.txt").read_text().split()


def put(home: Path, name: str, text: str = CANARY) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@contextmanager
def place() -> Iterator[Path]:
    """A directory outside `/tmp`, which commands have their own of."""
    path = Path(tempfile.mkdtemp(prefix="hames-test-", dir="/var/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def sandbox(home: Path, settings: SandboxSettings | None = None) -> LocalSandbox:
    return LocalSandbox(settings or SandboxSettings(), environ={"HOME": str(home), "PATH": os.environ["PATH"]})


def without_overlays(directory: Path) -> str:
    """A bubblewrap that says it is an older one and knows nothing of overlays, in front of the real one."""
    path = directory / "bwrap-0.8"
    path.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\n'
        'for word; do case "$word" in\n'
        '--overlay*|--tmp-overlay) echo "bwrap: Unknown option $word" >&2; exit 1;; esac; done\n'
        f'exec {shlex.quote(bubblewraps()[0])} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


@contextmanager
def odd_sockets(directory: Path) -> Iterator[dict[str, tuple[str, socket.socket]]]:
    """Listeners by the ways in which a program may bind one: where each is now, and who would hear."""
    (directory / "moving").mkdir(parents=True)
    before = Path.cwd()
    with ExitStack() as stack:
        stack.callback(os.chdir, before)
        os.chdir(directory)
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, opened)
        ways = {
            # An address has room for 107 bytes.
            "plain": (f"{directory}/plain" if len(str(directory)) < 100 else "plain", "plain"),
            "relative": ("relative", "relative"),
            "dotted": ("./dotted", "dotted"),
            "descriptor": (f"/proc/self/fd/{opened}/descriptor", "descriptor"),
            "renamed": ("renaming", "renamed"),
            "linked": ("linking", "linked"),
            "moved": ("moving/s", "moved/s"),
            "newline": ("new\nline", "new\nline"),
        }
        found: dict[str, tuple[str, socket.socket]] = {}
        for name, (address, path) in ways.items():
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.setblocking(False)
            listener.bind(address)
            listener.listen()
            found[name] = (str(directory / path), listener)
        Path("renaming").rename("renamed")
        os.link("linking", "linked")
        Path("moving").rename("moved")
        os.chdir(before)
        yield found


def heard(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


KNOCK = """
import os, socket, sys
for path in sys.argv[1:]:
    try:
        os.chdir(os.path.dirname(path))
        with socket.socket(socket.AF_UNIX) as knock:
            knock.connect(os.path.basename(path))
        print("reached", repr(path))
    except OSError:
        pass
print("knocked")
"""
