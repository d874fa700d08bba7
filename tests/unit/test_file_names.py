"""Files are short, and files that belong together are a folder rather than a prefix."""

from collections import Counter
from pathlib import Path

import pytest

import hames

SOURCE = Path(hames.__file__).parent
FOLDERS = sorted({path.parent for path in SOURCE.rglob("*.py")})
MOST_LINES = 450


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(SOURCE)))
def test_no_two_files_of_a_folder_share_a_prefix(folder: Path) -> None:
    prefixes = Counter(path.stem.split("_")[0] for path in folder.glob("[a-z]*_*.py"))
    assert [prefix for prefix, files in prefixes.items() if files > 1] == []


def test_no_file_is_longer_than_a_reader_can_keep_in_mind() -> None:
    lines = {path.relative_to(SOURCE).as_posix(): path.read_text().count("\n") for path in SOURCE.rglob("*.py")}
    assert {file: count for file, count in lines.items() if count > MOST_LINES} == {}


def test_names_of_test_files_are_unique() -> None:
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, files in names.items() if files > 1] == []
