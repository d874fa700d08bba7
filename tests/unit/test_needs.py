"""A test that needs a program says so in one line; on the machine that judges changes, that is a failure."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
INI = "[pytest]\nmarkers =\n  needs(*programs): programs\n"


def _outcomes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *, ci: bool) -> dict[str, int]:
    monkeypatch.setenv("CI", "true" if ci else "")
    monkeypatch.delenv("FAILED_TESTS", raising=False)  # for the run that this is a part of
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.needs("sh")
        def test_there_by_mark():
            pass

        def test_there_by_fixture(needed):
            assert needed("sh")

        @pytest.mark.needs("no-such-program")
        def test_missing_by_mark():
            pass

        def test_missing_by_fixture(needed):
            assert needed("no-such-program")
        """
    )
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA")
    ran.stdout.fnmatch_lines_random(["PASSED *::test_there_by_mark", "PASSED *::test_there_by_fixture"])
    return ran.parseoutcomes()


def test_a_missing_program_skips(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _outcomes(pytester, monkeypatch, ci=False) == {"passed": 2, "skipped": 2}


def test_a_missing_program_fails_where_changes_are_judged(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = _outcomes(pytester, monkeypatch, ci=True)
    assert outcomes["passed"] == 2
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 2


def test_the_wheels_count_as_installed(needed: Callable[[str], str]) -> None:
    assert Path(needed("bwrap")).is_file()
    assert Path(needed("rg")).is_file()
