"""The stage for a proof: files, processes and listeners of this machine that nobody inside a sandbox may touch.

Everything lives in one temporary directory and ends with it.
"""

import ctypes
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

_OUTSIDE = ("appended", "attributed", "chmodded", "linked", "moved", "removed", "renamed", "touched", "truncated")
_IPC_CREAT, _IPC_RMID = 0o1000, 0

AT_HOME = tuple(
    """
    .bash_history .config/some-tool/token .config/solana/id.json .databrickscfg .kaggle/kaggle.json
    .local/share/some-tool/session .pulumi/credentials.json .some-tool-nobody-knows Documents/passwords.txt
    notes.txt other-project/.env
    """.split()
)
TOOLS = (".cargo/bin", ".m2/repository", ".npm/_cacache", ".pyenv", ".local/share/uv/python", "go/bin", ".cache/pip")
BESIDE_TOOLS = tuple(
    """
    .cache/secret .cargo/credentials.toml .gradle/gradle.properties .local/share/uv/credentials/credentials.toml
    .m2/settings.xml .npm/secret .config/git/credentials go/secret
    """.split()
)
SETTINGS = {
    ".gitconfig": '[user]\n\tname = me\n[http]\n\textraheader = "Authorization: {0}"\n[alias]\n\tx = "!echo {0}"\n',
    ".config/git/config": '[url "https://me:{0}@example.org/"]\n\tinsteadOf = https://example.org/\n',
    ".npmrc": "registry=https://me:{0}@example.org/\n//example.org/:_authToken={0}\n",
    ".config/pip/pip.conf": "[global]\nindex-url = https://me:{0}@example.org/simple\n",
    ".config/uv/uv.toml": 'index-url = "https://me:{0}@example.org/simple"\n',
    ".cargo/config.toml": '[registries.mine]\nindex = "https://me:{0}@example.org/"\ntoken = "{0}"\n',
}
"""Files that tools need a part of, with a secret in the other part."""


class EscapeTargets:
    """`told` is what the attempts are told; the rest is for judging them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.out, self.ws, self.home = base / "out", base / "ws", base / "home"
        self.moved_state, self.missing_settings = self.ws / "moved-state", self.ws / "settings/hames.toml"
        self.token = str(random.SystemRandom().randrange(10**8, 10**9))
        self.canary = f"canary-{self.token}"
        self.survivor = f"86400.{self.token}"
        self.listeners: dict[str, socket.socket] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.told: dict[str, Any] = {}

    def heard(self, name: str) -> bool:
        """Whether somebody reached that listener."""
        listener = self.listeners.get(name)
        if listener is None:
            return False
        try:
            if listener.type == socket.SOCK_DGRAM:
                listener.recv(64)
            else:
                listener.accept()[0].close()
        except OSError:
            return False
        return True

    def running(self, words: str) -> bool:
        """Whether any process of this machine has these words in its command line."""
        for entry in os.scandir("/proc"):
            with suppress(OSError):
                if entry.name.isdigit() and words.encode() in Path(entry.path, "cmdline").read_bytes():
                    return True
        return False


@contextmanager
def set_up_targets(where: str) -> Generator[EscapeTargets]:
    """Puts it all up below `where`, which must not be a directory that sandboxes replace, such as `/tmp`."""
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="hames-proof-", dir=where)))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        stage = EscapeTargets(base)
        _files(stage)
        _workspace(stage.ws)
        _links(stage)
        _listeners(stage, stack)
        _odd_listeners(stage, stack)
        _processes(stage, stack)
        _shared(stage, stack)
        stage.told |= {
            "ws": str(stage.ws),
            "out": str(stage.out),
            "home": str(stage.home),
            "moved_state": str(stage.moved_state),
            "missing_settings": str(stage.missing_settings),
            "token": stage.token,
            "canary": stage.canary,
            "survivor": stage.survivor,
        }
        yield stage


def _files(stage: EscapeTargets) -> None:
    for directory in (stage.out / "mnt", stage.ws):
        directory.mkdir(parents=True)
    for name in _OUTSIDE:
        (stage.out / name).write_text("untouched")
        (stage.out / name).chmod(0o644)
    (stage.out / "notes.txt").write_text(stage.canary)
    for name in (".ssh/id_rsa", ".aws/credentials", ".netrc", "held-open", *AT_HOME, *BESIDE_TOOLS, *SETTINGS):
        path = stage.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SETTINGS.get(name, "{}").format(stage.canary))
    for name in TOOLS:
        (stage.home / name).mkdir(parents=True, exist_ok=True)
    stage.told |= {"at_home": list(AT_HOME), "beside_tools": list(BESIDE_TOOLS)}
    stage.moved_state.mkdir()
    (stage.moved_state / "token").write_text(stage.canary)


def _links(stage: EscapeTargets) -> None:
    """Files of the workspace that are also known by a name outside, as package managers and git leave them."""
    for name, mode in (("cache-entry", 0o644), ("cache-mode", 0o644), ("cache-object", 0o444)):
        (stage.out / name).write_text("untouched")
        (stage.out / name).chmod(mode)
    (stage.ws / ".venv/lib").mkdir(parents=True)
    (stage.ws / ".git/objects/aa").mkdir(parents=True)
    (stage.ws / ".venv/lib/module.py").hardlink_to(stage.out / "cache-entry")
    (stage.ws / ".venv/lib/mode.py").hardlink_to(stage.out / "cache-mode")
    (stage.ws / ".git/objects/aa/object").hardlink_to(stage.out / "cache-object")


def _workspace(ws: Path) -> None:
    """A repository that takes hooks and settings from its own tree, beside the things other agents obey."""
    for directory in (".git/hooks", ".git/objects", ".git/refs", ".husky", "tools/git", ".codex", "shared-gemini"):
        (ws / directory).mkdir(parents=True)
    (ws / ".harness/threads").mkdir(parents=True)
    (ws / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (ws / ".git/config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\thooksPath = .husky\n[include]\n\tpath = ../tools/git/shared.config\n"
    )
    (ws / "tools/git/shared.config").write_text("[alias]\n\tst = status\n")
    (ws / ".codex/config.toml").write_text("approval = 'always'\n")
    (ws / ".bashrc").write_text("# mine\n")
    (ws / ".gemini").symlink_to("shared-gemini")


def _listeners(stage: EscapeTargets, stack: ExitStack) -> None:
    wanted: dict[str, tuple[int, int, Any]] = {
        "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        "tcp6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
        "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        "unix": (socket.AF_UNIX, socket.SOCK_STREAM, str(stage.out / "s")),
        "unix_dgram": (socket.AF_UNIX, socket.SOCK_DGRAM, str(stage.out / "d")),
        "unix_ws": (socket.AF_UNIX, socket.SOCK_STREAM, str(stage.ws / "s")),
        "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0hames-{stage.token}"),
    }
    for name, (family, kind, address) in wanted.items():
        stage.told[name] = 0 if family == socket.AF_INET6 else str(address).lstrip("\0")
        with suppress(OSError):  # a machine without IPv6
            listener = stack.enter_context(socket.socket(family, kind))
            listener.setblocking(False)
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            stage.listeners[name] = listener
            if family in (socket.AF_INET, socket.AF_INET6):
                stage.told[name] = listener.getsockname()[1]


def _odd_listeners(stage: EscapeTargets, stack: ExitStack) -> None:
    """Sockets that the kernel's own list does not name by their path, outside and in the workspace."""
    before = os.getcwd()
    stack.callback(os.chdir, before)
    for place in ("out", "ws"):
        directory = stage.base / place
        os.chdir(directory)
        (directory / "moving").mkdir()
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, opened)
        names = {
            "relative": ("relative-socket", "relative-socket"),
            "dotted": ("./dotted-socket", "dotted-socket"),
            "descriptor": (f"/proc/self/fd/{opened}/descriptor-socket", "descriptor-socket"),
            "renamed": ("renamed-before", "renamed-socket"),
            "linked": ("linked-before", "linked-socket"),
            "moved": ("moving/socket", "elsewhere-now/socket"),
            "newline": (f"{directory}/new\nline", "new\nline"),
        }
        for name, (address, path) in names.items():
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.setblocking(False)
            listener.bind(address)
            listener.listen()
            stage.listeners[f"{name}_{place}"] = listener
            stage.told[f"{name}_{place}"] = str(directory / path)
        os.rename("renamed-before", "renamed-socket")
        os.link("linked-before", "linked-socket")
        os.rename("moving", "elsewhere-now")
    os.chdir(before)


def _processes(stage: EscapeTargets, stack: ExitStack) -> None:
    for name in ("victim", "traced"):
        process = subprocess.Popen(
            ["/bin/sleep", f"3600.{stage.token}"],
            cwd=stage.out,
            env={"KEY": stage.canary},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        stage.processes[name] = process
        stage.told[name] = process.pid
    maps = Path(f"/proc/{stage.processes['traced'].pid}/maps").read_text()
    stage.told["address"] = int(maps.partition("-")[0] or "0", 16)


def _shared(stage: EscapeTargets, stack: ExitStack) -> None:
    """Memory by key and by name, a file in `/tmp`, and a descriptor that wants to be inherited."""
    key = int(stage.token)
    libc = ctypes.CDLL(None)
    segment = libc.shmget(key, 4096, _IPC_CREAT | 0o600)
    stack.callback(libc.shmctl, segment, _IPC_RMID, None)
    memory = Path(f"/dev/shm/hames-{stage.token}")
    memory.write_text(stage.canary)
    stack.callback(memory.unlink, missing_ok=True)
    file, name = tempfile.mkstemp(prefix="hames-")
    os.write(file, stage.canary.encode())
    os.close(file)
    stack.callback(Path(name).unlink, missing_ok=True)
    held = os.open(stage.home / "held-open", os.O_RDONLY)
    os.set_inheritable(held, True)
    stack.callback(os.close, held)
    stage.told |= {"shm_key": key, "shm_name": memory.name, "tmp_file": name}


def interpreter() -> str | None:
    """A Python that this user may run, also inside a sandbox."""
    paths = (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin"))
    return next((path for path in paths if path and os.access(path, os.X_OK)), None)
