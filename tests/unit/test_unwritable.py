"""A file that the user named and that cannot be written is a sentence and no traceback."""

from argparse import Namespace
from pathlib import Path

import pytest

from hames.cli import schema
from hames.domain.errors import Misconfigured
from hames.logs import set_up


@pytest.mark.parametrize("name", ["missing/hames.log", "", "hames\0.log"])
def test_a_log_file_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misconfigured, match=r"^logs cannot be written to '"):
        set_up(level="info", file=f"{tmp_path}/{name}")


@pytest.mark.parametrize("name", ["file", "file/below", "\0"])
def test_a_directory_for_schemas_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match=" cannot be written: "):
        schema.run(Namespace(out=f"{tmp_path}/{name}"))
