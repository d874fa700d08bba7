"""The real packages, pinned, installed once into `.tools/clients`."""

import contextlib
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from acp_table import write_acp_table
from agents_table import write_agents_table
from clients_table import write_table
from request_clients import write_request_tables

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".tools" / "clients"
NPM = ("@openai/codex@0.166.0", "@agentclientprotocol/codex-acp@2.6.0")
PYPI_ALONE = ("openai-codex==0.163.0",)
SECONDS = 1200
"""The first test of a file installs what all of them need."""
PYPI = ("pydantic>=2.12", "packaging>=25", "pyte>=0.8.2")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def node_modules() -> Path:
    found = HOME / "node_modules"
    install_once(
        "npm", NPM, lambda: run_command("npm", "install", "--no-audit", "--no-fund", "--prefix", str(HOME), *NPM)
    )
    return found


@pytest.fixture(scope="session")
def client_python() -> str:
    """A Python with their packages and none of ours."""
    folder = HOME / "python"
    python = str(folder / "bin" / "python")

    def install() -> None:
        venv.create(folder, with_pip=True, clear=True)
        run_command(python, "-m", "pip", "install", "-q", "--no-deps", *PYPI_ALONE)
        run_command(python, "-m", "pip", "install", "-q", *PYPI)

    install_once("pypi", (*PYPI_ALONE, *PYPI), install)
    return python


def install_once(name: str, packages: tuple[str, ...], install: Callable[[], None]) -> None:
    mark = HOME / f"{name}.installed"
    if mark.exists() and mark.read_text() == "\n".join(packages):
        return
    HOME.mkdir(parents=True, exist_ok=True)
    install()
    mark.write_text("\n".join(packages))


def run_command(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


def newest_python(*least: int) -> str:
    """The newest on this machine. A name on the PATH may be a shim that runs nothing, so each one is tried."""
    report = "import sys, venv; print(*sys.version_info[:2])"
    installed = (str(one) for one in Path.home().glob(".pyenv/versions/*/bin/python3"))
    found: list[tuple[tuple[int, ...], str]] = []
    for name in (sys.executable, "python3", *(f"python3.{minor}" for minor in range(12, 20)), *installed):
        with contextlib.suppress(OSError, ValueError):
            done = subprocess.run([name, "-c", report], check=False, capture_output=True, text=True)
            found.append((tuple(int(part) for part in done.stdout.split()), name))
    version, name = max(found)
    assert version >= least, f"Python {'.'.join(map(str, least))} or newer is needed, and this machine has none"
    return name


def pytest_sessionfinish() -> None:
    write_table()
    write_acp_table(expected=9)
    write_agents_table()
    write_request_tables()
