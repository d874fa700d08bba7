"""The walls between the rooms hold, and the linter that guards them bites."""

import os
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / ".importlinter"


def _lint(root: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "NO_COLOR": "1"}
    program = str(Path(sys.executable).parent / "lint-imports")
    return subprocess.run(
        [program, "--no-cache", "--no-logo", "--config", str(root / CONTRACTS.name)],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src" / "hames", root / "src" / "hames", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CONTRACTS, root)
    (root / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "import_contracts.py", root / "scripts")
    return root


def test_every_room_keeps_to_its_floor() -> None:
    linted = _lint(ROOT)
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize(
    ("contract", "path", "line"),
    [
        ("Floors see only what is below them", "domain/sin.py", "import hames.ports"),
        ("Floors see only what is below them", "codecs/sin.py", "import hames.ports"),
        ("Floors see only what is below them", "core/sin.py", "import hames.store"),
        ("Floors see only what is below them", "store/sin.py", "import hames.server"),
        ("Floors see only what is below them", "closet.py", ""),
        ("Protocols do not know each other", "protocols/session.py", "import hames.protocols.rpc_session"),
        ("Protocols do not know each other", "protocols/unheard.py", ""),
        ("No room has a cycle inside", "domain/ids.py", "import hames.domain.items"),
        ("Words, codecs and protocols touch no file", "domain/sin.py", "import time"),
        ("Words, codecs and protocols touch no file", "codecs/lines.py", "from os import path"),
        ("The engine asks its clock", "core/sin.py", "import random"),
        ("asyncio itself is for stdio", "core/sin.py", "import asyncio"),
        ("Only app joins rooms", "cli/sin.py", "import hames.store.jsonl, hames.tools.shell"),
        ("Only app joins rooms", "api/harness.py", "import hames.store.memory"),
        ("Only app joins rooms", "server/sin.py", "import hames.core.engine, hames.store.jsonl"),
        ("Fakes stay out of the product", "server/sin.py", "import hames.testing"),
        ("Faces see the engine only through the client", "client/sin.py", "import hames.core"),
    ],
)
def test_a_broken_wall_is_seen(copy: Path, contract: str, path: str, line: str) -> None:
    sinner = copy / "src" / "hames" / path
    before = sinner.read_text(encoding="utf-8") if sinner.exists() else None
    sinner.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
    try:
        linted = _lint(copy)
    finally:
        if before is None:
            sinner.unlink()
        else:
            sinner.write_text(before, encoding="utf-8")

    assert linted.returncode != 0
    assert any(contract in said and "BROKEN" in said for said in linted.stdout.splitlines()), linted.stdout


def test_every_face_is_held_to_the_client() -> None:
    contracts = ConfigParser()
    contracts.read(CONTRACTS)
    held = contracts["importlinter:contract:faces"]["source_modules"].split()
    faces = {f"hames.{name}" for name in ("client", "tui", "web") if list((ROOT / "src/hames" / name).glob("*.py"))}
    assert set(held) == faces
