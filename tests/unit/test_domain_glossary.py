"""A word means one thing, and the glossary says which."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = [*sorted((ROOT / "src/hames/domain").glob("*.py")), *sorted((ROOT / "src/hames/ports").glob("*.py"))]


def test_every_noun_of_the_domain_is_in_the_glossary() -> None:
    nouns = {
        node.name
        for module in MODULES
        for node in ast.parse(module.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    explained = set(re.findall(r"`(\w+)`", (ROOT / "GLOSSARY.md").read_text(encoding="utf-8")))
    assert nouns - explained == set()
