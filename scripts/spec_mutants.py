"""Breaks every promise of `specs/` on purpose and checks that a test tied to it fails.

python scripts/spec_mutants.py [ID_OR_PREFIX...] [--jobs N]
python scripts/spec_mutants.py --table

`specs/mutants/*.toml` says how each promise is broken: one replacement in one file below `src/hames`. Each is applied
in a temporary copy of the repository; the working tree is never changed. Results:

killed    a tied test failed, as it should, and passes without the mutant
SURVIVED  every tied test passed although the promise was broken: the test must be strengthened
stale     the text to replace is not in the file exactly once
broken    no tied test could run: the changed module cannot be imported, or no test was found or collected;
          or the test that failed also fails without the mutant
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

import specs  # beside this file

ROOT = specs.ROOT
KEYS = frozenset({"id", "ids", "file", "old", "new", "weak"})
SECONDS = 120
SHARE_OF_WEAK = 0.05
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".tools", "node_modules", ".hypothesis", ".ruff_cache", ".import_linter_cache", "dist", "site"
)
SLOW_FOLDERS = ("tests/e2e", "tests/integration", "tests/clients")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One way to break the promises `ids`; or, with `weak`, why there is none."""

    ids: tuple[str, ...]
    file: str = ""
    old: str = ""
    new: str = ""
    weak: str = ""
    where: str = ""


@dataclass
class Plan:
    mutants: list[Mutant] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)

    def proved(self) -> set[str]:
        """The ids that at least one mutant breaks."""
        return {id_ for mutant in self.mutants if not mutant.weak for id_ in mutant.ids}

    def weak(self) -> dict[str, str]:
        return {id_: mutant.weak for mutant in self.mutants if mutant.weak for id_ in mutant.ids}


def load(root: Path = ROOT) -> Plan:
    plan = Plan()
    for path in sorted((root / "specs" / "mutants").glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        plan.todo += tables.get("todo", [])
        for number, table in enumerate(tables.get("mutant", []), start=1):
            if unknown := set(table) - KEYS:
                raise SystemExit(f"{path.name}: mutant {number} has unknown keys {sorted(unknown)}")
            ids = (table["id"],) if "id" in table else tuple(table["ids"])
            rest = {name: value for name, value in table.items() if name not in ("id", "ids")}
            plan.mutants.append(Mutant(ids=ids, where=f"{path.name}, mutant {number}", **rest))
    return plan


def complaints(plan: Plan, known: list[specs.Entry], root: Path = ROOT) -> list[str]:
    """What does not fit, a sentence each."""
    ids = {entry.id for entry in known if not entry.planned and not entry.untestable}
    proved, weak = plan.proved(), plan.weak()
    said = [f"no entry {id_!r} that could be tested" for id_ in sorted({*proved, *weak, *plan.todo} - ids)]
    said += [f"{id_!r} has a mutant and is also weak" for id_ in sorted(proved & weak.keys())]
    said += [f"{id_!r} is not todo any more: remove it there" for id_ in sorted({*proved, *weak} & set(plan.todo))]
    said += [f"{id_!r} has no mutant in specs/mutants" for id_ in sorted(ids - proved - weak.keys() - set(plan.todo))]
    if len(weak) > SHARE_OF_WEAK * len(ids):
        said.append(f"{len(weak)} of {len(ids)} entries are weak, which is more than {SHARE_OF_WEAK:.0%}")
    for mutant in plan.mutants:
        if mutant.weak:
            continue
        if not mutant.file or mutant.old == mutant.new:
            said.append(f"{mutant.where} ({', '.join(mutant.ids)}) changes nothing")
        elif (times := _occurrences(root, mutant)) != 1:
            said.append(f"{mutant.where} ({', '.join(mutant.ids)}): `old` occurs {times} times in {mutant.file}")
    return said


def table(plan: Plan, known: list[specs.Entry], made: list[specs.Tie]) -> str:
    """What is supported and proved, as Markdown, and which entries are weak and why."""
    weak = plan.weak()
    lines = [specs.table(known, made, {"proved": plan.proved(), "weak": weak}).rstrip(), "", "### Weak entries", ""]
    lines += [f"- `{id_}`: {reason}" for id_, reason in weak.items()] or ["None."]
    if plan.todo:
        lines += ["", f"{len(plan.todo)} entries have no mutant yet."]
    return "\n".join(lines)


def _occurrences(root: Path, mutant: Mutant) -> int:
    path = root / "src" / "hames" / mutant.file
    return path.read_text(encoding="utf-8").count(mutant.old) if path.is_file() else 0


# -- which tests are tied to an entry


@dataclass(frozen=True)
class Tests:
    files: tuple[str, ...]
    cases: tuple[str, ...]
    """Node ids of transcripts; everything else is found by its marker."""


def tied(id_: str, made: list[specs.Tie], root: Path = ROOT) -> Tests:
    """Fast tests first: the run ends with the first failure."""
    files: set[str] = set()
    cases: set[str] = set()
    for tie in made:
        if tie.id != id_:
            continue
        name, _, line = tie.where.rpartition(":")
        if name.endswith(".py"):
            files.add(name)
            continue
        file, case = _transcript_case(root / name, int(line))
        files.add(file)
        cases.add(f"{file}::{case}")
    return Tests(tuple(sorted(files, key=lambda name: (name.startswith(SLOW_FOLDERS), name))), tuple(sorted(cases)))


def _transcript_case(path: Path, line: int) -> tuple[str, str]:
    """The test file and the parametrized test that replays a transcript, or one scene of it."""
    if path.parent.name == "flint":
        test = "tests/protocol/flint/test_flint_transcripts.py"
        return test, f"test_the_conversation_goes_as_written[{path.name}]"
    test = f"tests/protocol/test_{path.parent.name}_transcripts.py"
    above = path.read_text(encoding="utf-8").split("\n")[:line]
    title = next(text[3:] for text in reversed(above) if text.startswith("## "))
    return test, f"test_the_server_speaks_as_written[{specs.scene_name(title)}]"


# -- a copy of the repository with a Python of its own


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """Also programs that a test starts see the copy: they run with the copy's own virtual environment."""
    with tempfile.TemporaryDirectory(prefix="spec-mutants-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy, ignore=LEFT_OUT, symlinks=True)
        _environment(copy)
        yield copy


def _environment(copy: Path) -> None:
    target = copy / ".venv"
    venv.create(target, symlinks=True, with_pip=False)
    ours = Path(sys.prefix)
    (packages,) = ours.glob("lib/python*/site-packages")
    (own_packages,) = target.glob("lib/python*/site-packages")
    # A path in a .pth file is added as it is: the .pth file there that names our own src is not read.
    (own_packages / "hames_copy.pth").write_text(f"{copy / 'src'}\n{packages}\n", encoding="utf-8")
    for program in (ours / "bin").iterdir():
        if (target / "bin" / program.name).exists() or program.is_dir():
            continue
        content = program.read_bytes()
        if content.startswith(b"#!") and str(ours).encode() in content:
            script = target / "bin" / program.name
            script.write_bytes(content.replace(str(ours).encode(), str(target).encode()))
            script.chmod(0o755)
        else:
            (target / "bin" / program.name).symlink_to(program)


def _python(copy: Path) -> str:
    return str(copy / ".venv" / "bin" / "python")


# -- running


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant
    id: str
    result: str
    detail: str = ""


class Bench:
    """A copy of the repository and the process that runs tests in it."""

    def __init__(self, copy: Path, sound: dict[str, bool]) -> None:
        """`sound` remembers which tests pass without any mutant."""
        self._copy = copy
        self._sound = sound
        kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        self._process = subprocess.Popen(
            [_python(copy), str(copy / "scripts" / "tied_tests.py")],
            cwd=copy,
            env=kept | {"TMPDIR": str(copy.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, mutant: Mutant, id_: str, made: list[specs.Tie]) -> Outcome:
        if _occurrences(self._copy, mutant) != 1:
            return Outcome(mutant, id_, "stale", mutant.where)
        path = self._copy / "src" / "hames" / mutant.file
        before = path.read_text(encoding="utf-8")
        _write(path, before.replace(mutant.old, mutant.new))
        try:
            ends = self._ask(tied(id_, made, self._copy), [id_], _module(mutant.file))
        finally:
            _write(path, before)
        if ends.get("failed") and not self._is_sound(test := ends["failed"][0]):
            return Outcome(mutant, id_, "broken", f"{test} also fails without the mutant")
        return Outcome(mutant, id_, *judge(ends))

    def _is_sound(self, test: str) -> bool:
        if test not in self._sound:
            ends = self._ask(Tests((test.partition("::")[0],), (test,)), [], "")
            self._sound[test] = ends.get("passed") == [test]
        return self._sound[test]

    def _ask(self, tests: Tests, ids: list[str], module: str) -> dict[str, Any]:
        what = {"ids": ids, "cases": tests.cases, "files": tests.files, "module": module, "seconds": SECONDS}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)


def _write(path: Path, text: str) -> None:
    """Python takes a compiled file whose time and size fit, and two mutants in a second can have the same of both."""
    path.write_text(text, encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def judge(ends: dict[str, Any]) -> tuple[str, str]:
    """The result in a word, and what shows it."""
    if ends.get("failed"):
        return "killed", f"{ends['failed'][0]}: {ends['reason']}"
    if ends["timeout"]:
        return "killed", f"no end after {SECONDS} s"
    if ends.get("errors") or not ends.get("passed"):
        return "broken", ends["printed"][-1500:]
    return "SURVIVED", f"passed: {', '.join(ends['passed'])}"


def _module(file: str) -> str:
    return "hames." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def run_all(work: list[tuple[Mutant, str]], jobs: int = 1) -> Iterator[Outcome]:
    """Each job has a copy of its own."""
    made = specs.ties()
    free: Queue[Bench] = Queue()
    sound: dict[str, bool] = {}

    def one(mutant: Mutant, id_: str) -> Outcome:
        bench = free.get()
        try:
            return bench.run(mutant, id_, made)
        finally:
            free.put(bench)

    with ExitStack() as stack:
        for _ in range(jobs):
            bench = Bench(stack.enter_context(copy_of(ROOT)), sound)
            stack.callback(bench.close)
            free.put(bench)
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        stack.callback(pool.shutdown, cancel_futures=True)
        for future in [pool.submit(one, mutant, id_) for mutant, id_ in work]:
            yield future.result()


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ID_OR_PREFIX", help="only these entries")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants to run at the same time")
    parser.add_argument("--table", action="store_true", help="print what is supported and proved")
    chosen = parser.parse_args()
    plan = load()
    if chosen.table:
        print(table(plan, specs.entries(), specs.ties()))
        return 0
    names = set(chosen.names)
    prefixes = tuple(names - {entry.id for entry in specs.entries()}) if names else ("",)
    work = [
        (mutant, id_)
        for mutant in plan.mutants
        if not mutant.weak
        for id_ in mutant.ids
        if id_ in names or id_.startswith(prefixes)
    ]
    counts: Counter[str] = Counter()
    for outcome in run_all(work, chosen.jobs):
        counts[outcome.result] += 1
        print(f"{outcome.result:8}  {outcome.id}  {outcome.detail}", flush=True)
    weak = plan.weak()
    print(
        f"{counts['killed']} killed, {counts['SURVIVED']} survived, {counts['stale']} stale, {counts['broken']} broken;"
        f" {len(weak)} entries are weak, {len(plan.todo)} have no mutant yet"
    )
    return 0 if counts.keys() <= {"killed"} else 1


if __name__ == "__main__":
    sys.exit(main())
