"""The entry for the registry of ACP agents says what is true of this version."""

import json
from pathlib import Path
from xml.etree import ElementTree

from hames import __version__
from hames.cli.main import COMMANDS

ENTRY = Path(__file__).parents[2] / "packaging" / "acp-registry" / "hames"


def test_the_entry_names_this_version_and_a_command_that_exists() -> None:
    entry = json.loads((ENTRY / "agent.json").read_text())
    assert entry["id"] == ENTRY.name
    assert entry["version"] == __version__
    assert entry["distribution"]["uvx"] == {"package": f"hames=={__version__}", "args": ["acp"]}
    assert entry["distribution"]["uvx"]["args"][0] in COMMANDS


def test_the_icon_is_small_and_takes_the_colour_of_its_surroundings() -> None:
    text = (ENTRY / "icon.svg").read_text()
    icon = ElementTree.fromstring(text)
    assert (icon.get("width"), icon.get("height")) == ("16", "16")
    assert "currentColor" in text
    assert "#" not in text
