"""The glossary explains our own terms, names only what exists, and stays short enough to be read."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8")
MOST_TERMS = 45


def test_every_class_that_the_glossary_names_exists() -> None:
    named = set(re.findall(r"`([A-Z]\w+)`", GLOSSARY))
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/hames").rglob("*.py"))
    assert named
    assert named - set(re.findall(r"^(?:class )?([A-Z]\w+)(?= = |[(:])", source, re.MULTILINE)) == set()


def test_the_glossary_is_short() -> None:
    terms = re.findall(r"^\| \*\*", GLOSSARY, re.MULTILINE)
    assert 0 < len(terms) <= MOST_TERMS
