"""Agents that speak ACP are found on the PATH, and those that are missing are named with the way to get them."""

from pathlib import Path

import pytest

from hames.agents.acp.items import ToolState, intent, opened_item
from hames.agents.acp.known import KNOWN, find_known
from hames.app import check_agent_name
from hames.app.acp_agents import acp_programs
from hames.config.load import load
from hames.domain.approvals import RunCommand
from hames.domain.errors import Misconfigured
from hames.domain.ids import ItemId


def install(folder: Path, *names: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder.parent)}


@pytest.mark.parametrize("known", KNOWN, ids=[one.name for one in KNOWN])
def test_one_that_is_installed_is_found_with_its_arguments(known: object, tmp_path: Path) -> None:
    program, *words = known.command  # type: ignore[attr-defined]
    environment = install(tmp_path / "bin", program)
    [(found, command)] = find_known(environment)
    assert found == known
    assert command == [str(tmp_path / "bin" / program), *words]
    check_agent_name(found.name, environment)


@pytest.mark.parametrize("known", KNOWN, ids=[one.name for one in KNOWN])
def test_one_that_is_missing_is_named_with_the_way_to_get_it(known: object, tmp_path: Path) -> None:
    environment = install(tmp_path / "bin", "claude")  # Claude Code alone does not speak ACP
    with pytest.raises(Misconfigured) as refused:
        check_agent_name(known.name, environment)  # type: ignore[attr-defined]
    assert known.install in str(refused.value)  # type: ignore[attr-defined]


def test_a_program_of_the_workspace_is_not_started(tmp_path: Path) -> None:
    environment = install(tmp_path / "ws" / "bin", "gemini")
    assert list(find_known(environment, str(tmp_path / "ws"))) == []


def test_an_agent_of_the_configuration_takes_the_place_of_one_that_is_found(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[agents.gemini]\ncommand = ["mine"]\n')
    environment = {**install(tmp_path / "bin", "gemini", "goose"), "HAMES_CONFIG": str(file)}
    (tmp_path / "ws").mkdir()
    programs = acp_programs(load({"cwd": str(tmp_path / "ws")}, environment))
    assert programs["gemini"].command == ("mine",)
    assert programs["goose"].command[1:] == ("acp",)


def test_a_call_that_has_a_command_is_judged_as_one_whatever_the_agent_calls_it() -> None:
    state = ToolState(call_id="1").updated({"title": "shell", "rawInput": {"command": "git push"}})
    item = opened_item(state, ItemId("i"), 1, "/w")
    assert intent(item, state) == RunCommand(command="git push", cwd="/w", unsandboxed=True)
