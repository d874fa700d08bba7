"""Runs only the tests that are tied to some entries of `specs/`, each time in a fresh copy of this process.

`scripts/spec_mutants.py` starts this in a copy of the repository and writes one JSON request a line to its stdin:

    {"ids": [...], "cases": [...], "files": [...], "module": "hames...", "seconds": 120}

`ids` selects tests by marker, `cases` by node id. `module` is imported first: if that fails, no test runs. The answer
is one line of JSON: how the tests ended, and what was printed.

Importing pytest and the libraries takes several times as long as running a transcript. They are imported once, and
the process forks for each request. `hames` itself is never imported here, because its files change between requests.
"""

import contextlib
import importlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

LIBRARIES = (
    "_hypothesis_pytestplugin",
    "anyio.pytest_plugin",
    "anyio._backends._asyncio",
    "xdist.plugin",
    "pytest_timeout",
    "msgspec",
    "jsonschema",
    "httpx2",
    "websockets.asyncio.client",
    "starlette.applications",
)
POLL_SECONDS = 0.02
REASON_CHARS = 200
ERROR = re.compile(r"(E| *\|) +([\w.]*(Error|Exception|Failed|EndOfStream|Closed)\b|assert )")


class TiedTests:
    """A pytest plugin: selects the tests and notes how they end."""

    def __init__(self, ids: set[str], cases: set[str], files: list[str]) -> None:
        self._ids = ids
        self._cases = cases
        self._files = files
        self.failed: list[str] = []
        self.errors: list[str] = []
        self.passed: list[str] = []
        self.reason = ""
        """Why the first test failed, in a line."""

    def pytest_configure(self) -> None:
        """Any counterexample will do: searching for the smallest takes longer than everything else."""
        known = hypothesis.settings.get_profile("short")  # of tests/conftest.py
        phases = tuple(phase for phase in known.phases if phase is not hypothesis.Phase.shrink)
        hypothesis.settings.register_profile("mutants", known, phases=phases)
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """In the order of the files: the suite runs its slow files first, and here the first failure is enough."""
        yield
        config.hook.pytest_deselected(items=[item for item in items if not self._is_tied(item)])
        tied = (item for item in items if self._is_tied(item))
        items[:] = sorted(tied, key=lambda item: self._files.index(item.nodeid.partition("::")[0]))

    def _is_tied(self, item: pytest.Item) -> bool:
        return item.nodeid in self._cases or any(self._ids & set(marker.args) for marker in item.iter_markers("spec"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.reason = self.reason or _reason(report.longreprtext)
            (self.failed if report.when == "call" else self.errors).append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)


def _reason(text: str) -> str:
    """The last line of a failure's text that names an error: the ones before it are its causes, or source code."""
    lines = text.splitlines()
    found = [line for line in lines if ERROR.match(line)] or [line for line in lines if line.startswith("E ")]
    return found[-1].strip(" E|+")[:REASON_CHARS] if found else ""


def run(what: dict[str, Any]) -> dict[str, Any]:
    """In the child: the tests, up to the first that fails."""
    if what["module"]:
        importlib.import_module(what["module"])
    plugin = TiedTests(set(what["ids"]), set(what["cases"]), what["files"])
    options = [
        "-x",
        "-n",
        "0",
        "-o",
        "timeout=60",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    pytest.main([*options, *what["files"]], plugins=[plugin])
    return {"failed": plugin.failed, "errors": plugin.errors, "passed": plugin.passed, "reason": plugin.reason}


def fork(what: dict[str, Any], folder: Path) -> dict[str, Any]:
    result, printed = folder / "result.json", folder / "printed.txt"
    result.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setsid()
            output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            try:
                result.write_text(json.dumps(run(what)), encoding="utf-8")
            except BaseException as why:
                print(f"no test could run: {type(why).__name__}: {why}", file=sys.stderr, flush=True)
        os._exit(0)
    until = time.monotonic() + what["seconds"]
    while not (ended := os.waitpid(child, os.WNOHANG)[0]) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also what a broken server left running
    if not ended:
        os.waitpid(child, 0)
    ends = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    text = printed.read_text(encoding="utf-8", errors="replace") if printed.exists() else ""
    return {"timeout": not ended, "printed": text[-4000:], **ends}


def main() -> None:
    sys.path.pop(0)  # this folder: the tests must not find its scripts as modules
    for name in LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="tied-tests-") as folder:
        for line in sys.stdin:
            print(json.dumps(fork(json.loads(line), Path(folder))), flush=True)


if __name__ == "__main__":
    main()
