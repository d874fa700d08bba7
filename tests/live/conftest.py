"""A real model in a process of its own, set up by `tests/live/setup.sh` the first time."""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = ROOT / ".tools/live/bin/python"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def model_url() -> Generator[str]:
    """The base URL of a server with one small model. No network is used but loopback."""
    setup = subprocess.run([str(HERE / "setup.sh")], capture_output=True, text=True, check=False, timeout=600)
    if setup.returncode:
        sentence = f"the live model could not be set up: {setup.stderr.strip()[-300:]}"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    with subprocess.Popen(
        [str(PYTHON), str(HERE / "serve.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), f"the server said {address!r}"
        yield f"{address}/v1"
        server.stdin.close()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
