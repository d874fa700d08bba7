"""The promises and the tests know each other, both ways."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _load(name: str) -> ModuleType:
    # By path: `scripts` is no package, and `specs` is also a directory.
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


specs = _load("specs")
mutants = _load("spec_mutants")

ENTRY = """
[[entry]]
id = "toy/runs"
section = "Toys"
says = "A toy runs."
"""
TIE = 'import pytest\n\n\n@pytest.mark.{}("{}")\ndef test_it() -> None: ...\n'


def _toy(root: Path, entry: str, *, tie: str = "", transcript: str = "") -> Path:
    for folder in ("specs", "tests/protocol/toy"):
        (root / folder).mkdir(parents=True)
    (root / "specs/toy.toml").write_text(entry)
    if tie:
        # Put together at run time, or this file would itself claim to prove the toys' entries.
        (root / "tests/test_toy.py").write_text(TIE.format("spec", tie))
    if transcript:
        (root / "tests/protocol/toy/talk.txt").write_text(transcript)
    return root


def _complaints(root: Path) -> list[str]:
    return specs.complaints(specs.entries(root), specs.ties(root))


def test_every_promise_has_a_test_and_every_claim_a_promise() -> None:
    assert _complaints(ROOT) == []


def test_an_entry_with_a_test_is_content(tmp_path: Path) -> None:
    assert _complaints(_toy(tmp_path, ENTRY, tie="toy/runs")) == []


def test_an_entry_without_a_test_is_complained_about(tmp_path: Path) -> None:
    assert _complaints(_toy(tmp_path, ENTRY)) == ["'toy/runs' has no test: A toy runs."]


@pytest.mark.parametrize("excuse", ["planned = true", 'untestable = "a matter of taste"'])
def test_an_entry_with_an_excuse_needs_no_test(tmp_path: Path, excuse: str) -> None:
    assert _complaints(_toy(tmp_path, ENTRY + excuse)) == []


def test_a_claim_without_an_entry_is_complained_about(tmp_path: Path) -> None:
    said = _complaints(_toy(tmp_path, ENTRY + "planned = true", tie="toy/flies"))
    assert said == ["tests/test_toy.py:4: no entry 'toy/flies' in specs/"]


def test_a_transcript_can_carry_claims(tmp_path: Path) -> None:
    assert _complaints(_toy(tmp_path, ENTRY, transcript="# A talk.\n# spec: toy/runs\n> {}\n")) == []


def test_a_planned_entry_with_a_test_is_settled_by_the_script(tmp_path: Path) -> None:
    _toy(tmp_path, ENTRY + "planned = true\n", tie="toy/runs")

    (complaint,) = _complaints(tmp_path)
    assert "--settle" in complaint

    assert specs.settle(tmp_path) == ["toy/runs"]
    assert _complaints(tmp_path) == []
    assert (tmp_path / "specs/toy.toml").read_text() == ENTRY


def test_an_entry_of_two_minds_is_complained_about(tmp_path: Path) -> None:
    said = _complaints(_toy(tmp_path, ENTRY + 'planned = true\nuntestable = "no"\n'))
    assert said == ["'toy/runs' cannot be both planned and untestable"]


def test_the_same_id_twice_is_complained_about(tmp_path: Path) -> None:
    assert "'toy/runs' is there twice" in _complaints(_toy(tmp_path, ENTRY + ENTRY, tie="toy/runs"))


def test_the_table_counts_what_is_tested(tmp_path: Path) -> None:
    _toy(tmp_path, ENTRY, tie="toy/runs")
    assert "| Toys | 1 | 1 |" in specs.table(specs.entries(tmp_path), specs.ties(tmp_path))


# --- mutants ------------------------------------------------------------------

BREAKS_IT = """
[[mutant]]
id = "toy/runs"
file = "toy.py"
old = "fast"
new = "slow"
"""


def _toy_mutants(root: Path, text: str, *, code: str = "fast\n") -> list[str]:
    _toy(root, ENTRY, tie="toy/runs")
    (root / "specs/mutants").mkdir()
    (root / "specs/mutants/toy.toml").write_text(text)
    (root / "src/hames").mkdir(parents=True)
    (root / "src/hames/toy.py").write_text(code)
    return mutants.complaints(mutants.load(root), specs.entries(root), root)


def test_every_promise_can_be_broken_or_says_why_not() -> None:
    assert mutants.complaints(mutants.load(), specs.entries()) == []


def test_no_entry_is_added_to_those_without_a_mutant() -> None:
    assert mutants.load().todo == []


def test_a_promise_that_can_be_broken_is_content(tmp_path: Path) -> None:
    assert _toy_mutants(tmp_path, BREAKS_IT) == []


def test_a_promise_without_a_mutant_is_complained_about(tmp_path: Path) -> None:
    assert _toy_mutants(tmp_path, "") == ["'toy/runs' has no mutant in specs/mutants"]


def test_a_promise_that_waits_for_its_mutant_is_not_complained_about(tmp_path: Path) -> None:
    assert _toy_mutants(tmp_path, 'todo = ["toy/runs"]\n') == []


def test_a_promise_with_a_mutant_waits_no_more(tmp_path: Path) -> None:
    assert _toy_mutants(tmp_path, 'todo = ["toy/runs"]\n' + BREAKS_IT) == [
        "'toy/runs' is not todo any more: remove it there"
    ]


@pytest.mark.parametrize(("code", "times"), [("slow\n", 0), ("fast, fast\n", 2)])
def test_a_mutant_that_does_not_fit_the_code_is_complained_about(tmp_path: Path, code: str, times: int) -> None:
    assert _toy_mutants(tmp_path, BREAKS_IT, code=code) == [
        f"toy.toml, mutant 1 (toy/runs): `old` occurs {times} times in toy.py"
    ]


def test_a_mutant_that_changes_nothing_is_complained_about(tmp_path: Path) -> None:
    (complaint,) = _toy_mutants(tmp_path, BREAKS_IT.replace('"slow"', '"fast"'))
    assert complaint == "toy.toml, mutant 1 (toy/runs) changes nothing"


def test_a_mutant_for_no_entry_is_complained_about(tmp_path: Path) -> None:
    assert "no entry 'toy/flies' that could be tested" in _toy_mutants(
        tmp_path, BREAKS_IT + BREAKS_IT.replace("toy/runs", "toy/flies")
    )


def test_few_entries_may_be_weak(tmp_path: Path) -> None:
    assert _toy_mutants(tmp_path, '[[mutant]]\nid = "toy/runs"\nweak = "a matter of taste"\n') == [
        "1 of 1 entries are weak, which is more than 5%"
    ]


def test_the_table_says_which_entries_are_proved_and_which_are_weak(tmp_path: Path) -> None:
    _toy_mutants(tmp_path, BREAKS_IT)
    known, made = specs.entries(tmp_path), specs.ties(tmp_path)
    assert "| Toys | 1 | 1 | 1 | 0 |" in mutants.table(mutants.load(tmp_path), known, made)
    weak = mutants.Plan([mutants.Mutant(ids=("toy/runs",), weak="a matter of taste")])
    assert "| Toys | 1 | 1 | 0 | 1 |" in mutants.table(weak, known, made)
    assert "- `toy/runs`: a matter of taste" in mutants.table(weak, known, made)


def test_a_mutant_is_judged_by_how_the_tied_tests_end() -> None:
    ends = {"timeout": False, "printed": "", "failed": [], "errors": [], "passed": [], "reason": "assert False"}
    assert mutants.judge({**ends, "passed": ["a"], "failed": ["b"]}) == ("killed", "b: assert False")
    assert mutants.judge({**ends, "passed": ["a"]})[0] == "SURVIVED"
    assert mutants.judge({**ends, "errors": ["a"]})[0] == "broken"
    assert mutants.judge(ends)[0] == "broken"
    assert mutants.judge({"timeout": False, "printed": "ImportError"}) == ("broken", "ImportError")
    assert mutants.judge({"timeout": True, "printed": ""})[0] == "killed"


SLICE = (
    "bootstrap/turn-start-model",
    "bootstrap/turn-time-completed",
    "core/registration-constant",
    "flint/command-duration",
    "flint/file-change-approval-accept",
    "flint/model-is-default",
    "flint/sandbox-external-network",
    "flint/thread-created-at",
    "flint/thread-resume-model",
    "flint/thread-start-cwd",
    "flint/turn-start-cwd",
    "sync/op-set-adds-message",
)
"""Promises whose tests once did not notice that they were broken."""


@pytest.mark.slow
def test_broken_promises_are_noticed() -> None:
    greeting = {"ids": ("bootstrap/initialize-version",), "file": "protocols/bootstrap/greeting.py"}
    others = {
        "SURVIVED": mutants.Mutant(**greeting, old='"""The answer to', new='"""An answer to'),
        "broken": mutants.Mutant(
            **greeting, old='"""The answer to', new='from hames import nothing_of_the_kind  # """'
        ),
        "stale": mutants.Mutant(**greeting, old="nothing of the kind", new=""),
    }
    chosen = [(one, id_) for one in mutants.load().mutants for id_ in one.ids if id_ in SLICE and not one.weak]
    assert {id_ for _, id_ in chosen} == set(SLICE)
    outcomes = list(mutants.run_all([*chosen, *((one, one.ids[0]) for one in others.values())]))
    assert [(one.id, one.result, one.detail) for one in outcomes[: len(chosen)] if one.result != "killed"] == []
    assert [one.result for one in outcomes[len(chosen) :]] == list(others)
