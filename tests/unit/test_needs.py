"""A test that needs a program says so in one line; on the machine that judges changes, that is a failure."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
INI = "[pytest]\nmarkers =\n  needs(*programs): programs\n"


def _outcomes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, program: str, *, ci: bool) -> dict[str, int]:
    monkeypatch.setenv("CI", "true" if ci else "")
    monkeypatch.delenv("FAILED_TESTS", raising=False)  # for the run that this is a part of
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.needs({program!r})
        def test_by_mark():
            pass

        def test_by_fixture(needed):
            assert needed({program!r})
        """
    )
    return pytester.runpytest_subprocess("-p", "no:cacheprovider").parseoutcomes()


@pytest.mark.parametrize(
    ("program", "ci", "outcomes"),
    [
        ("sh", False, {"passed": 2}),
        ("sh", True, {"passed": 2}),
        ("no-such-program", False, {"skipped": 2}),
    ],
)
def test_a_missing_program_skips(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, program: str, ci: bool, outcomes: dict[str, int]
) -> None:
    assert _outcomes(pytester, monkeypatch, program, ci=ci) == outcomes


def test_a_missing_program_fails_where_changes_are_judged(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = _outcomes(pytester, monkeypatch, "no-such-program", ci=True)
    assert "passed" not in outcomes
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 2


def test_the_wheels_count_as_installed(needed: Callable[[str], str]) -> None:
    assert Path(needed("bwrap")).is_file()
    assert Path(needed("rg")).is_file()
