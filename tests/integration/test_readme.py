"""What the README and the pages it leads to show, run. A newcomer copies it, so it has to work as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import ProviderServer, ServerTalk, Use, Words, talk

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CLIENTS = (ROOT / "docs" / "clients.md").read_text()
LIBRARY = (ROOT / "docs" / "library.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", CLIENTS + LIBRARY, re.DOTALL)


def run(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env=environment,
    )


def test_the_library_example_works(tmp_path: Path) -> None:
    code = next(block for block in PYTHON if "Harness(" in block)
    first = ServerTalk(parts=(Words(text="Adding."), Use(name="add", arguments='{"a": 2, "b": 40}')), stop="tools")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(ProviderServer(ANTHROPIC, first, talk("42."))) as server,
    ):
        asked = code.replace('model="claude-sonnet-5-5"', f'model="claude-sonnet-5-5", base_url="{server.url}"')
        done = run(asked, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Adding.", "→ add {'a': 2, 'b': 40}", "← 42", "42."]


def test_the_client_example_works(tmp_path: Path) -> None:
    code = next(block for block in PYTHON if "AppServerClient" in block)
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_one_liner_answers_exactly_as_shown(tmp_path: Path) -> None:
    command, answer = re.findall(r"\$ (echo .*) \| bootstrap harness\n(.*)\n", CLIENTS)[0]
    done = subprocess.run(
        ["bash", "-c", f"{command} | {sys.executable} -m hames harness"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert done.stdout.strip() == answer


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\]\((docs/[^)#]+|[A-Z]+\.md)\)", README))))
def test_every_link_leads_somewhere(name: str) -> None:
    assert (ROOT / name).exists()


def test_every_command_that_is_named_exists() -> None:
    from hames.cli.main import COMMANDS

    named = set(re.findall(r"`hames ([a-z][a-z-]*)", README)) | set(re.findall(r"\$ hames ([a-z][a-z-]*)", README))
    assert named <= set(COMMANDS)
