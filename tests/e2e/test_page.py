"""The page and the TypeScript client, in their own test runner: units, and a real Chromium on the real server.

`make e2e` runs everything; here is the slice that every change passes.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"

pytestmark = [
    pytest.mark.needs("node", "npm", "chromium"),
    pytest.mark.xdist_group("page"),  # one worker: they share `node_modules`
]


def npm(*words: str, timeout_s: int = 400) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable, "CI": os.environ.get("CI", "")}
    return subprocess.run(
        ["npm", *words], cwd=WEB, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
    )


@pytest.fixture(scope="module")
def installed() -> None:
    """From the lock, into the checkout, once per lock."""
    digest = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = WEB / "node_modules" / ".hames-lock"
    if stamp.exists() and stamp.read_text() == digest:
        return
    done = npm("install", "--no-save")  # as the lock says; `ci` stumbles over other platforms' optional parts
    assert done.returncode == 0, done.stdout + done.stderr
    stamp.write_text(digest)


def test_the_lock_names_no_host() -> None:
    assert "://" not in "".join(
        line for line in (WEB / "package-lock.json").read_text().splitlines() if '"resolved"' in line
    )


@pytest.mark.spec(
    "sync/converter-thread-messages",
    "sync/client-sends-commands",
    "sync/flow-render-each-delta",
    "sync/reconnect-replaces",
)
@pytest.mark.usefixtures("installed")
def test_the_client_and_the_page_pass_their_own_tests() -> None:
    done = npm("test")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("check", ["typecheck", "lint"])
def test_the_sources_are_in_order(check: str) -> None:
    done = npm("run", check)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.usefixtures("installed")
def test_the_page_that_is_shipped_is_the_one_in_the_source() -> None:
    done = npm("run", "built")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


SLICE = "|".join(  # `make e2e` plays them all
    (
        "yes with a key",
        "undone and redone",
        "stop ends",
        "cut in the middle",
        "is killed",
        "two tabs",
        "gone on from",
        "is text",
        "on a phone",
        "first page",
        "a token",
        "Markdown",
    )
)


@pytest.mark.usefixtures("installed")
def test_a_real_browser_talks_to_the_real_server() -> None:
    done = npm("run", "e2e", "--", "real.e2e.ts", "serve.e2e.ts", "-t", SLICE)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
