"""What the description of the architecture names exists."""

import ast
import re
from pathlib import Path

import pytest

import hames

SOURCE = Path(hames.__file__).parent
TEXT = (Path(__file__).parents[2] / "docs/architecture.md").read_text()
FILES = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)[:`]", TEXT)))
NAMES = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py): (\w+)`", TEXT)))


@pytest.mark.parametrize("file", FILES)
def test_a_file_it_names_exists(file: str) -> None:
    # `inbound.py` alone is a file that every protocol has.
    assert (SOURCE / file).is_file() or ("/" not in file and list(SOURCE.glob(f"protocols/*/{file}")))


@pytest.mark.parametrize(("file", "name"), NAMES)
def test_a_name_is_where_it_says(file: str, name: str) -> None:
    defined = [node for node in ast.walk(ast.parse((SOURCE / file).read_text())) if hasattr(node, "name")]
    assert name in [getattr(node, "name", "") for node in defined]
