"""What we write is for this user alone, whatever the umask: walked after real processes have made it."""

import os
import pty
import select
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from hames.private_files import create_private, open_private, private_directory, write_private

HAMES = str(Path(sys.executable).with_name("hames"))
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (64).to_bytes(4) + (64).to_bytes(4) + b"\x08\x06\0\0\0"


def loose(*roots: Path) -> dict[str, str]:
    """Everything below these that others could read, with its mode."""
    found = {}
    for root in roots:
        for path in [root, *root.rglob("*")]:
            mode = stat.S_IMODE(path.lstat().st_mode)
            wanted = 0o700 if path.is_dir() else 0o600
            if not path.is_symlink() and mode & ~wanted:
                found[str(path)] = oct(mode)
    return found


class Home:
    """A home directory in which nothing of ours exists yet, and a workspace beside it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.work = folder / "work"
        self.work.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "xterm-256color"}

    def hames(self, *words: str, umask: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HAMES, *words],
            cwd=self.work,
            env={**self.environment, **environment},
            umask=umask,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def roots(self) -> list[Path]:
        return [self.home, self.work / ".harness"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_commands_leave_nothing_that_others_could_read(home: Home, tmp_path: Path) -> None:
    log = home.home / "logs.jsonl"
    ran = home.hames("run", "--model", "scripted/hello", "Hello?", "--log-file", str(log), "--log-level", "debug")
    assert ran.returncode == 0, ran.stderr
    assert home.hames("mcp", "add", "mine", "true").returncode == 0
    (home.work / "hames.toml").write_text('approval_policy = "always"\n')
    assert home.hames("trust").returncode == 0
    assert home.hames("threads").returncode == 0
    assert home.hames("models").returncode == 0
    made = {path.name for root in home.roots for path in root.rglob("*")}
    assert {"seal.key", "trusted.json", "config.toml", "index.db", "events.jsonl", "meta.json", "logs.jsonl"} <= made
    assert loose(*home.roots) == {}


def test_a_server_leaves_nothing_that_others_could_read(home: Home) -> None:
    command = [HAMES, "serve", "--port", "0", "--token", "--model", "scripted/hello"]
    with subprocess.Popen(
        command, cwd=home.work, env=home.environment, umask=0, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            said = ""
            for line in server.stdout:
                said += line
                if "Ctrl+C" in line:
                    break
            url = next(word for word in said.split() if word.startswith("http://")).partition("/?")[0]
            token = next(home.home.rglob("token")).read_text().strip()
            with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
                uploaded = client.post("/uploads", content=PNG, headers={"content-type": "image/png"})
                assert uploaded.status_code == 201, uploaded.text
                asked = client.post("/prompt", json={"content": "Hello?"})
                assert asked.status_code == 200, asked.text
                assert loose(*home.roots) == {}  # the socket is there as well
                assert (home.work / ".harness" / "hames.sock").exists()
        finally:
            server.terminate()
            server.stdout.read()
    assert loose(*home.roots) == {}


def test_the_terminal_leaves_nothing_that_others_could_read(home: Home) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.umask(0)
        os.chdir(home.work)
        os.execve(HAMES, [HAMES, "--model", "scripted/hello"], home.environment)
    try:
        deadline, seen, typed = time.monotonic() + 60, b"", False
        while b"I am a script" not in seen and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.5)[0]:
                seen += os.read(terminal, 65536)
            if not typed and b"scripted/hello" in seen:
                os.write(terminal, b"Hello there\r")
                typed = True
        assert b"I am a script" in seen
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)
    assert any(b"Hello there" in path.read_bytes() for path in home.home.rglob("*") if path.is_file()), "no history"
    assert loose(*home.roots) == {}


def test_a_recorded_model_and_a_learned_list_are_private(home: Home, tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from hames.providers.cassette import Recorder
from hames.providers.model_list import RememberedList, remember_list
remember_list(Path(sys.argv[1], "state/models"), "x", RememberedList(url="http://x", at_ms=1, models=()))
Recorder(sys.argv[1] + "/deep/er/cassette.jsonl", {})
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(home.home)], umask=0, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (home.home / "deep" / "er" / "cassette.jsonl").exists()
    assert loose(home.home) == {}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
def test_the_modes_do_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask & 0o077)
    try:
        write_private(tmp_path / "a" / "b" / "file", b"x")
        write_private(tmp_path / "a" / "b" / "file", b"y", sync=True)
        assert create_private(tmp_path / "c" / "d" / "key", b"k")
        assert not create_private(tmp_path / "c" / "d" / "key", b"other")
        os.close(open_private(tmp_path / "e" / "f" / "log", os.O_WRONLY))
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"y"
    assert (tmp_path / "c" / "d" / "key").read_bytes() == b"k"
    modes = {str(p.relative_to(tmp_path)): stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*")}
    assert modes == {
        **dict.fromkeys(("a", "a/b", "c", "c/d", "e", "e/f"), 0o700),
        **dict.fromkeys(("a/b/file", "c/d/key", "e/f/log"), 0o600),
    }


def test_a_directory_that_is_there_already_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    private_directory(tmp_path / "shared" / "own")
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "shared" / "own").stat().st_mode) == 0o700
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match="not a directory"):
        private_directory(tmp_path / "dangling")
