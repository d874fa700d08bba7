"""A class name is defined in one module, so that whoever searches for it finds one thing. Messages of protocols, which
have the names of their specifications, are excepted."""

import re
from collections import defaultdict
from pathlib import Path

import hames

SOURCE = Path(hames.__file__).parent
MESSAGES = ("protocols", "client/appserver_events.py", "client/appserver/events.py")
"""Where the names are a protocol's own: its messages, and the events of its client."""

STILL_SHARED = {}
"""Names that wait for another one. Nothing is added here; what is renamed is removed."""


def test_a_class_name_is_defined_in_one_module() -> None:
    shared = {name: modules for name, modules in class_names().items() if len(modules) > 1}
    assert shared == {}, "rename one of each"


def class_names() -> dict[str, set[str]]:
    names: defaultdict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).as_posix()
        if not module.startswith((*MESSAGES, "cli/demo_files")):
            for name in re.findall(r"^class ([^_\W]\w*)", path.read_text(), re.MULTILINE):
                names[name].add(module)
    return names
