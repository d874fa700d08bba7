"""What is promised and what is proved: reads `specs/*.toml` and the ties in the tests.

Ties are read from the text of the tests, never by running them: a test that is
skipped on this machine is still a tie.
"""

import argparse
import ast
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEYS = frozenset({"id", "section", "says", "planned", "untestable"})
ID = re.compile(r"[a-z]+/[a-z0-9]+(-[a-z0-9]+)*")
TRANSCRIPT_TIE = re.compile(r"^#\s*spec:\s*(.+)$")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One sentence of a specification."""

    id: str
    section: str
    says: str
    planned: bool = False
    untestable: str = ""


@dataclass(frozen=True)
class Tie:
    """An id, and the file and line that claim to prove it."""

    id: str
    where: str


def entries(root: Path = ROOT) -> list[Entry]:
    """Every entry, in the order of the files."""
    found: list[Entry] = []
    for path in sorted((root / "specs").glob("*.toml")):
        for table in tomllib.loads(path.read_text(encoding="utf-8")).get("entry", []):
            if unknown := set(table) - KEYS:
                raise SystemExit(f"{path.name}: {table.get('id')!r} has unknown keys {sorted(unknown)}")
            found.append(Entry(**table))
    return found


def ties(root: Path = ROOT) -> list[Tie]:
    """Every claim in the tests and the transcripts."""
    tests = root / "tests"
    found: list[Tie] = []
    for path in sorted(tests.rglob("*.py")):
        found += _python_ties(path, path.relative_to(root))
    for path in sorted((tests / "protocol").rglob("*.txt")):
        found += _transcript_ties(path, path.relative_to(root))
    return found


def _python_ties(path: Path, name: Path) -> Iterator[Tie]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(name))):
        match node:
            case ast.Call(func=ast.Attribute(attr="spec", value=ast.Attribute(attr="mark")), args=args):
                for arg in args:
                    where = f"{name}:{arg.lineno}"
                    match arg:
                        case ast.Constant(value=str(id_)):
                            yield Tie(id_, where)
                        case _:
                            raise SystemExit(f"{where}: a spec id is written out as a string, so that it can be found")
            case _:
                pass


def _transcript_ties(path: Path, name: Path) -> Iterator[Tie]:
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if tie := TRANSCRIPT_TIE.match(line):
            for id_ in re.split(r"[,\s]+", tie[1].strip()):
                yield Tie(id_, f"{name}:{number}")


def scene_name(title: str) -> str:
    """How pytest names a scene of a transcript, see `tests/protocol/transcripts.py`."""
    return re.sub(r"\W+", "-", title).strip("-")


def complaints(known: list[Entry], made: list[Tie]) -> list[str]:
    """What does not fit, a sentence each."""
    said: list[str] = []
    ids: set[str] = set()
    for entry in known:
        if entry.id in ids:
            said.append(f"{entry.id!r} is there twice")
        ids.add(entry.id)
        if not ID.fullmatch(entry.id):
            said.append(f"{entry.id!r} is not of the form 'name/words-with-hyphens'")
        if entry.planned and entry.untestable:
            said.append(f"{entry.id!r} cannot be both planned and untestable")
        if not entry.says.endswith("."):
            said.append(f"{entry.id!r} says no sentence")
    said += [f"{tie.where}: no entry {tie.id!r} in specs/" for tie in made if tie.id not in ids]

    tied = {tie.id for tie in made}
    for entry in known:
        if entry.id in tied and entry.planned:
            said.append(f"{entry.id!r} has a test and is no longer planned: run `python scripts/specs.py --settle`")
        if entry.id in tied and entry.untestable:
            said.append(f"{entry.id!r} has a test: it cannot be untestable")
        if entry.id not in tied and not entry.planned and not entry.untestable:
            said.append(f"{entry.id!r} has no test: {entry.says}")
    return said


def settle(root: Path = ROOT) -> list[str]:
    """Drops `planned` from every entry that has a test; returns their ids."""
    tied = {tie.id for tie in ties(root)}
    settled: list[str] = []
    for path in sorted((root / "specs").glob("*.toml")):
        blocks = path.read_text(encoding="utf-8").split("[[entry]]\n")
        for index, block in enumerate(blocks[1:], start=1):
            (table,) = tomllib.loads("[[entry]]\n" + block)["entry"]
            if table["id"] in tied and table.get("planned"):
                blocks[index] = re.sub(r"^planned = true\n", "", block, flags=re.MULTILINE)
                settled.append(table["id"])
        path.write_text("[[entry]]\n".join(blocks), encoding="utf-8")
    return settled


def table(known: list[Entry], made: list[Tie], more: Mapping[str, Collection[str]] | None = None) -> str:
    """What is supported, a Markdown table per specification. `more`: further columns, each with the ids it counts."""
    more = more or {}
    tied = {tie.id for tie in made}
    lines: list[str] = []
    for name in sorted({entry.id.split("/")[0] for entry in known}):
        own = [entry for entry in known if entry.id.startswith(f"{name}/")]
        proved = sum(entry.id in tied for entry in own)
        testable = sum(not entry.untestable for entry in own)
        lines += [
            f"### {name}: {proved} of {testable}",
            "",
            f"| {' | '.join(('section', 'sentences', 'tested', *more))} |",
        ]
        lines.append("|---|" + "--:|" * (2 + len(more)))
        for section in dict.fromkeys(entry.section for entry in own):
            here = [entry for entry in own if entry.section == section and not entry.untestable]
            if here:
                counts = [sum(entry.id in ids for entry in here) for ids in (tied, *more.values())]
                lines.append(f"| {' | '.join(map(str, (section, len(here), *counts)))} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--settle", action="store_true", help="drop `planned` from entries that have a test")
    what.add_argument("--table", action="store_true", help="print the support table")
    what.add_argument("--open", action="store_true", help="print the entries without a test")
    chosen = parser.parse_args()
    if chosen.settle:
        settled = settle()
        print(f"{len(settled)} settled", *settled, sep="\n")
        return
    known, made = entries(), ties()
    if chosen.table:
        print(table(known, made))
    elif chosen.open:
        tied = {tie.id for tie in made}
        print(
            *(f"{entry.id}  {entry.says}" for entry in known if entry.id not in tied and not entry.untestable), sep="\n"
        )
    elif said := complaints(known, made):
        raise SystemExit("\n".join(said))


if __name__ == "__main__":
    main()
