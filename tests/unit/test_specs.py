"""The promises and the tests know each other, both ways."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _load() -> ModuleType:
    # By path: `scripts` is no package, and `specs` is also a directory.
    spec = importlib.util.spec_from_file_location("hames_specs", ROOT / "scripts" / "specs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


specs = _load()

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
