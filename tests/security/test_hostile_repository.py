"""CFG-5: a repository whose configuration names programs. Whatever lists, searches or shows its files runs none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from hames.tui.completing import list_files
from server_support import serve_process

HAMES = str(Path(sys.executable).with_name("hames"))


def git(where: Path, *words: str) -> None:
    settings = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "HOME": str(where),
        "PATH": os.environ["PATH"],
    }
    who = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *words], cwd=where, env=settings, capture_output=True, check=True, timeout=60)


class Trap:
    """A repository, with a submodule, a nested repository and a bare one, which all name programs to run."""

    def __init__(self, folder: Path) -> None:
        self.markers = folder / "markers"
        self.markers.mkdir()
        self.work = folder / "work"
        source = self._repository(folder / "source")
        self._repository(self.work)
        git(self.work, "submodule", "add", "-q", str(source), "sub")
        git(self.work, "commit", "-qm", "with a submodule")
        self._repository(self.work / "nested")
        git(self.work, "init", "-q", "--bare", "bare.git")
        for where, config in {
            "top": self.work / ".git" / "config",
            "sub": self.work / ".git" / "modules" / "sub" / "config",
            "nested": self.work / "nested" / ".git" / "config",
            "bare": self.work / "bare.git" / "config",
        }.items():
            self._arm(where, config)
        for where in (self.work, self.work / "sub", self.work / "nested"):
            (where / "a.txt").write_text("changed, so that its content has to be looked at\n")
            (where / ".gitattributes").write_text("* filter=evil diff=evil\n")

    def _repository(self, where: Path) -> Path:
        where.mkdir()
        git(where, "init", "-q")
        (where / "a.txt").write_text("one\n")
        (where / ".gitignore").write_text("ignored\n")
        git(where, "add", "-A")
        git(where, "commit", "-qm", "one")
        return where

    def _program(self, name: str) -> str:
        path = self.markers.parent / f"evil-{name}"
        path.write_text(f"#!/bin/sh\ntouch '{self.markers}/{name}'\ncat\n")
        path.chmod(0o755)
        return str(path)

    def _arm(self, where: str, config: Path) -> None:
        hooks = config.parent / "evil-hooks"
        hooks.mkdir()
        for hook in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
            (hooks / hook).write_text(f"#!/bin/sh\ntouch '{self.markers}/{where}-hook'\n")
            (hooks / hook).chmod(0o755)
        names = {
            "fsmonitor": f"[core]\n\tfsmonitor = {self._program(f'{where}-fsmonitor')}\n",
            "hooks": f"[core]\n\thooksPath = {hooks}\n",
            "pager": f"[core]\n\tpager = {self._program(f'{where}-pager')}\n",
            "filter": f'[filter "evil"]\n\tclean = {self._program(f"{where}-clean")}\n'
            f"\tsmudge = {self._program(f'{where}-smudge')}\n\tprocess = {self._program(f'{where}-process')}\n",
            "diff": f"[diff]\n\texternal = {self._program(f'{where}-external')}\n"
            f'[diff "evil"]\n\ttextconv = {self._program(f"{where}-textconv")}\n'
            f"\tcommand = {self._program(f'{where}-command')}\n",
            "alias": f"[alias]\n\tls-files = !{self._program(f'{where}-alias')}\n",
            "credential": f"[credential]\n\thelper = !{self._program(f'{where}-credential')}\n",
        }
        with config.open("a") as file:
            file.write("".join(names.values()))

    @property
    def sprung(self) -> list[str]:
        return sorted(path.name for path in self.markers.iterdir())

    def reset(self) -> None:
        for path in self.markers.iterdir():
            path.unlink()


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


@pytest.mark.needs("git")
def test_the_trap_works(trap: Trap) -> None:
    subprocess.run(["git", "status"], cwd=trap.work, capture_output=True, check=False, timeout=60)
    assert {name.partition("-")[0] for name in trap.sprung} >= {"top", "sub"}, "these tests would prove nothing"


TOOLS = [
    {"call": "list", "with": {"depth": 5}},
    {"call": "list", "with": {"path": "sub", "depth": 5}},
    {"call": "glob", "with": {"pattern": "**/*"}},
    {"call": "glob", "with": {"pattern": "*", "path": "nested"}},
    {"call": "grep", "with": {"pattern": "one|changed"}},
    {"call": "grep", "with": {"pattern": "changed", "path": "sub"}},
    {"call": "read", "with": {"path": "sub/a.txt"}},
    {"call": "write", "with": {"path": "nested/new.txt", "content": "x\n"}},
    {"call": "edit", "with": {"path": "a.txt", "old": "changed", "new": "seen"}},
]


@pytest.mark.needs("git", "rg")
def test_CFG_5_the_file_tools_run_no_program_of_the_repository(trap: Trap, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([TOOLS, [{"say": "done"}]]))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HAMES_STATE": str(tmp_path / "state")}
    words = ["run", "--json", "--approval-policy", "never", "--model", f"scripted/{script}", "look @a.txt @sub/a.txt"]
    done = subprocess.run(
        [HAMES, *words], cwd=trap.work, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    ran = [json.loads(line) for line in done.stdout.splitlines() if '"item.completed"' in line]
    assert sum(one["item"]["type"] in ("toolCall", "fileChange") for one in ran) == len(TOOLS), done.stdout
    assert trap.sprung == []


@pytest.mark.needs("git", "rg")
def test_CFG_5_completing_a_file_name_in_the_terminal_runs_no_program_of_the_repository(trap: Trap) -> None:
    found = list_files(trap.work)
    assert {"a.txt", "sub/a.txt", "nested/a.txt"} <= set(found)
    assert trap.sprung == []


@pytest.mark.needs("git", "rg")
async def test_CFG_5_the_server_finds_files_without_running_a_program_of_the_repository(
    trap: Trap, tmp_path: Path
) -> None:
    async with serve_process(tmp_path, [[{"say": "done"}]]) as (_, url), httpx2.AsyncClient(base_url=url) as client:
        assert (await client.post("/threads", json={})).status_code == 201
        found = (await client.get("/files", params={"query": "a.txt"})).json()
        for path in ("/status", "/threads", "/healthz"):
            assert (await client.get(path)).status_code == 200
    assert {hit["path"] for hit in found["files"]} >= {"a.txt", "sub/a.txt"}, found
    assert trap.sprung == []


@pytest.mark.needs("git")
@pytest.mark.parametrize("words", [["doctor"], ["threads"], ["models"], ["config"], ["trust"], ["completion", "bash"]])
def test_CFG_5_no_command_runs_a_program_of_the_repository(trap: Trap, tmp_path: Path, words: list[str]) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HAMES_STATE": str(tmp_path / "state")}
    subprocess.run([HAMES, *words], cwd=trap.work, env=environment, capture_output=True, timeout=120, check=False)
    assert trap.sprung == []


@pytest.mark.needs("git", "bwrap")
def test_CFG_5_watching_over_a_command_runs_no_program_of_the_repository(trap: Trap, tmp_path: Path) -> None:
    """What we look at before and after a command in the sandbox: guard rails, and what the command left behind."""
    script = tmp_path / "script.json"
    make = "mkdir planted && cp -r nested/.git planted/.git && touch planted/a.txt"
    script.write_text(json.dumps([[{"call": "shell", "with": {"command": make}}], [{"say": "done"}]]))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HAMES_STATE": str(tmp_path / "state")}
    words = ["run", "--approval-policy", "never", "--model", f"scripted/{script}", "go"]
    subprocess.run([HAMES, *words], cwd=trap.work, env=environment, capture_output=True, timeout=120, check=False)
    assert trap.sprung == []
