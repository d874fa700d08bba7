"""What must go on working behind the walls: a sandbox that breaks honest work is switched off."""

import shutil
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from walls import as_user, bubblewraps, run, settings, users, workspace

from hames.domain.policy import ReadOnly
from hames.sandbox.local import LocalSandbox
from hames.sandbox.processes.environment import SYSTEM_PATH

pytestmark = pytest.mark.needs("bwrap", "bash")

FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": (
        "import unittest\nfrom calc import add\n\n\nclass Tests(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
    ),
    "hello.c": '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n',
    "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"build": "node -e \\"console.log(6 * 7)\\""}}\n',
    "Makefile": "all:\n\t@echo made > made.txt && cat made.txt\n",
    "pool.py": (
        "import multiprocessing as mp\n\n\ndef double(x):\n    return 2 * x\n\n\nif __name__ == '__main__':\n"
        "    for kind in ('fork', 'spawn', 'forkserver'):\n"
        "        with mp.get_context(kind).Pool(2) as pool:\n            print(kind, sum(pool.map(double, range(5))))\n"
    ),
    "serve.py": (
        "import http.server, threading, urllib.request\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "url = f'http://127.0.0.1:{server.server_port}/calc.py'\n"
        "print(urllib.request.urlopen(url).read().decode().split()[1])\n"
    ),
    "pair.py": (
        "import socket, tempfile\n"
        "path = tempfile.mkdtemp() + '/s'\nserver = socket.socket(socket.AF_UNIX)\nserver.bind(path)\nserver.listen()\n"
        "client = socket.socket(socket.AF_UNIX)\nclient.connect(path)\nclient.send(b'paired')\n"
        "print(server.accept()[0].recv(9).decode())\n"
    ),
    "base.py": (
        "import sqlite3\nbase = sqlite3.connect('data.db')\nbase.execute('create table t (x)')\n"
        "base.execute('insert into t values (7)')\nbase.commit()\nprint(base.execute('select x from t').fetchone())\n"
    ),
}
COMMIT = "git -c user.email=me@example.org -c user.name=me"

WORK: dict[str, tuple[str, str, str]] = {
    # what it needs, the command, what it must say
    "python": ("python3", "python3 -c 'print(6 * 7)'", "42"),
    "unittest": ("python3", "python3 -m unittest -v 2>&1", "OK"),
    "processes": ("python3", "python3 pool.py", "forkserver 20"),
    "a server on loopback": ("python3", "python3 serve.py", "add(a,"),
    "a unix socket": ("python3", "python3 pair.py", "paired"),
    "sqlite": ("python3", "python3 base.py", "(7,)"),
    "a terminal": ("python3", 'python3 -c \'import pty; pty.spawn(["echo", "on a pty"])\'', "on a pty"),
    "shared memory": (
        "python3",
        "python3 -c 'from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=9); "
        'm.buf[0] = 7; print("shared", m.buf[0]); m.unlink()\'',
        "shared 7",
    ),
    "git status": ("git", "git status --short", "?? calc.py"),
    "git commit": ("git", f"git add -A . && {COMMIT} commit -qm one && git log --format=%s", "one"),
    "git branches": (
        "git",
        f"git add calc.py && {COMMIT} commit -qm one && git switch -qc topic && echo x >> calc.py "
        f"&& {COMMIT} commit -qam two && git switch -q - && {COMMIT} merge -q topic && git log --format=%s",
        "two",
    ),
    "a compiler": ("gcc", "gcc -o hello hello.c && ./hello", "compiled"),
    "make": ("make", "make", "made"),
    "npm run": ("npm", "npm run --silent build", "42"),
    "node": ("node", 'node -e \'new (require("worker_threads").Worker)("console.log(7)", {eval: true})\'', "7"),
    "temporary files": ("bash", "f=$(mktemp) && echo kept > $f && cat $f && ls -d /tmp /dev/shm", "kept"),
    "pipes and jobs": ("bash", "seq 3 | while read x; do echo $x & done; wait; cat <(echo substituted)", "substituted"),
    "removing and moving": ("bash", "mkdir -p a/b && mv a c && rm -r c && echo tidy", "tidy"),
}


def has(program: str) -> bool:
    return shutil.which(program, path=":".join(SYSTEM_PATH)) is not None


async def working(bubblewrap: str) -> dict[str, str]:
    """Every piece of work, each in a fresh workspace, and what went wrong."""
    wrong: dict[str, str] = {}
    sandbox = LocalSandbox(settings(bubblewrap))
    for name, (program, command, expected) in WORK.items():
        if has(program):
            with workspace() as here:
                for file, text in FILES.items():
                    (here / file).write_text(text)
                if program == "git":
                    git_init(here)
                done = await run(command, here, sandbox=sandbox)
                if done.code != 0 or expected not in done.text:
                    wrong[name] = f"exit code {done.code}: {done.text}"
                if leftovers := guarded(here):
                    wrong[f"{name}: left behind"] = leftovers
    return wrong


def git_init(here: Path) -> None:
    """By hand: a test that runs as nobody has no configuration to run git with outside."""
    for name in ("hooks", "objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (here / ".git" / name).mkdir(parents=True)
    (here / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (here / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n")


def guarded(here: Path) -> str:
    return " ".join(sorted(path.name for path in here.iterdir() if path.name.startswith(".") and path.name != ".git"))


@pytest.mark.parametrize(("bubblewrap", "user"), list(zip(cycle(bubblewraps()), users(), strict=False)))
def test_ordinary_work_works_inside(bubblewrap: str, user: str) -> None:
    wrong: dict[str, Any] = as_user(user, "test_ordinary_work:working", bubblewrap)
    assert wrong == {}


async def test_reading_works_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    done = await run("cat a.txt | wc -l; sort -r a.txt; mktemp >/dev/null && echo scratch", tmp_path, ReadOnly())
    assert done.text == "2\ntwo\none\nscratch\n"


async def test_a_command_finds_its_way_in_a_subdirectory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    done = await run("pwd; echo x > here", tmp_path, cwd=tmp_path / "sub")
    assert done.text.strip() == str(tmp_path / "sub")
    assert (tmp_path / "sub/here").read_text() == "x\n"
