"""The command line itself."""

from pathlib import Path

import pytest
from bootstrap_process import BIN, run

from hames.cli.main import COMMANDS, main


def test_every_command_says_what_it_does_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    commands = capsys.readouterr().out.partition("commands:")[2]
    listed = [line.split()[0] for line in commands.splitlines() if line.startswith("  ")]
    assert {"harness", "schema"} <= set(listed) <= set(COMMANDS)
    for name in listed:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        assert f"hames {name}" in capsys.readouterr().out


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    from hames import __version__

    assert run(tmp_path, [BIN / "hames", "--version"]).stdout == f"hames {__version__}\n".encode()


def test_an_unknown_command_is_an_error_that_says_where_the_list_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["teleport"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "no command 'teleport'" in said.err
    assert "--help lists the commands" in said.err
    assert main(["--help"]) == 0
    assert "harness" in capsys.readouterr().out
