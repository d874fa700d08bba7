"""What a start imports: only what the first thread needs, so that a start stays quick."""

import json
import sys
from pathlib import Path

import pytest
from bootstrap_process import INITIALIZE, run

MODULES_AT_THE_END = """
import sys
import hames.app
hames.app.WARM_UP_SECONDS = 3600  # what is made ready for the first turn is not part of the start
from hames.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n".join(["", "modules:", *sys.modules]))
sys.exit(code)
"""

FIRST_THREAD = {
    "harness": INITIALIZE + b'{"jsonrpc":"2.0","id":2,"method":"thread.create"}\n',
    "app-server": b'{"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"1"}}}\n'
    b'{"id":2,"method":"thread/start","params":{}}\n',
}
UNUSED_BY_A_THREAD = {
    "hames.checkpoints.local",
    "hames.core.follower",
    "hames.core.loop",
    "hames.core.peer_service",
    "hames.core.turns",
    "hames.protocols.flint.codex.dialect",
    "hames.sandbox.local",
    "hames.sandbox.trust.rules.book",
    "hames.sandbox.trust.shell_trust",
    "hames.store.listing",
    "hames.store.reading",
    "hames.store.spending",
    "hames.tools.environment",
    "hames.tools.registry",
    "hashlib",
    "secrets",
    "shutil",
    "sqlite3",
    "tempfile",
}
UNUSED_BY_A_SCRIPTED_TURN = {
    "hames.protocols.flint.codex.dialect",
    "hames.sandbox.local",
    "httpx2",
    "starlette",
    "textual",
}
MOST_MODULES = {"harness": 183, "app-server": 216, "run": 335}
"""Of ours. A start takes longer with each: before you raise a number, import the new module where it is used."""


def imported(tmp_path: Path, words: list[str], said: bytes = b"") -> tuple[bytes, set[str]]:
    work = tmp_path / "work"
    work.mkdir()
    done = run(tmp_path, [sys.executable, "-c", MODULES_AT_THE_END, *words], input=said, cwd=work)
    assert done.returncode == 0, done.stderr
    return done.stdout, set(done.stderr.decode().partition("\nmodules:\n")[2].split())


def own(modules: set[str]) -> int:
    return sum(name.partition(".")[0] == "hames" for name in modules)


@pytest.mark.parametrize("command", FIRST_THREAD)
def test_the_first_thread_imports_nothing_that_it_does_not_need(tmp_path: Path, command: str) -> None:
    output, modules = imported(tmp_path, [command], FIRST_THREAD[command])
    assert any(json.loads(line).get("id") == 2 for line in output.splitlines())
    assert modules & UNUSED_BY_A_THREAD == set()
    assert own(modules) <= MOST_MODULES[command]


def test_a_turn_without_tools_imports_no_sandbox(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["Hello."]')
    output, modules = imported(tmp_path, ["run", "--model", f"scripted/{script}", "Hello?"])
    assert output == b"Hello.\n"
    assert modules & UNUSED_BY_A_SCRIPTED_TURN == set()
    assert own(modules) <= MOST_MODULES["run"]


@pytest.mark.parametrize("command", ["/nonexistent/server", "no-such-mcp-server"])
def test_a_missing_mcp_program_is_told_without_importing_the_sdk(tmp_path: Path, command: str) -> None:
    """The import takes longer than the rest of such a turn."""
    (tmp_path / "script.json").write_text('["Hello."]')
    settings = tmp_path / ".config" / "hames" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[mcp_servers.gone]\ncommand = "{command}"\n')
    words = ["run", "--model", f"scripted/{tmp_path}/script.json", "Hello?"]
    output, modules = imported(tmp_path, words)
    assert output == b"Hello.\n"
    assert "hames.tools.mcp.servers" in modules, "the server was tried"
    assert modules & {"mcp", "pydantic"} == set()
