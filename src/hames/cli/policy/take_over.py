"""`hames policy import`: shows what it takes from another tool's lists and what not, and writes it when told to."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from hames.config.load import Options
from hames.config.other_rules import Imported, from_claude, from_codex_config, from_codex_rules
from hames.config.rules import RuleFiles, read_rule, rule_text
from hames.domain.display import visible
from hames.domain.errors import InvalidCommand, Misconfigured
from hames.domain.rules import Rule, shown_rule


def import_rules(args: Namespace, options: Options, files: RuleFiles) -> int:
    found = _claude(args, options) if args.tool == "claude" else _codex(args)
    if not found:
        raise InvalidCommand(f"no lists of {args.tool} were found; name the file: hames policy import {args.tool} FILE")
    known = {_key(rule) for rule in files.in_force(str(options.cwd))}
    taken: list[Rule] = []
    for origin, imported in found:
        print(visible(f"{origin}:"))
        for rule in imported.rules:
            checked = _checked(rule, options)
            if isinstance(checked, str):
                print(visible(f"  not taken  {shown_rule(rule)}: {checked}"))
            elif _key(checked) in known:
                print(visible(f"  there      {shown_rule(rule)}"))
            else:
                known.add(_key(checked))
                taken.append(rule)
                where = f" (only in {rule.project})" if rule.project else ""
                print(visible(f"  take       {shown_rule(rule)}{where}"))
        for entry, why in imported.left:
            print(visible(f"  not taken  {entry}: {why}"))
        if imported.mode:
            print(visible(f"  its approval setting is nearest to {_mode_words(imported.mode)}; it is not changed here"))
    if any(rule.action == "allow" and rule.command for rule in taken):
        print("`allow` means not asked, inside the sandbox. To let one leave it, add outside = true to the rule")
    if not taken:
        print("nothing to add")
        return 0
    if not args.yes and not _agrees(len(taken), files):
        print(f"nothing was written; add --yes to write {len(taken)} rule{'s' * (len(taken) != 1)} to {files.user}")
        return 0
    for rule in taken:
        files.keep(rule)
    print(visible(f"wrote {len(taken)} rule{'s' * (len(taken) != 1)} to {files.user}"))
    return 0


def _claude(args: Namespace, options: Options) -> list[tuple[str, Imported]]:
    home = Path(options.environment.get("HOME") or Path.home())
    names = ("settings.json", "settings.local.json")
    if args.path:
        named = Path(args.path).expanduser()
        folder = named / ".claude" if (named / ".claude").is_dir() else named
        candidates = [folder / name for name in names] if named.is_dir() else [named]
        if not any(path.is_file() for path in candidates):
            raise InvalidCommand(f"no file {args.path!r}")
    else:
        candidates = [directory / ".claude" / name for directory in (home, options.cwd) for name in names]
    found: list[tuple[str, Imported]] = []
    for path in dict.fromkeys(candidates):
        if not path.is_file():
            continue
        folder = path.resolve().parent
        of_project = folder.name == ".claude" and folder.parent != home.resolve()
        found.append((str(path), _read(path, partial(_claude_file, path, str(folder.parent) if of_project else ""))))
    return found


def _claude_file(path: Path, project: str, text: str) -> Imported:
    return from_claude(text, origin=path.name, project=project)


def _codex(args: Namespace) -> list[tuple[str, Imported]]:
    home = Path(args.path or os.environ.get("CODEX_HOME") or "~/.codex").expanduser()
    if home.is_file():
        candidates = [home]
    else:
        candidates = [home / "config.toml", *sorted(home.glob("*.rules")), *sorted(home.glob("rules/*.rules"))]
    if args.path and not any(path.is_file() for path in candidates):
        raise InvalidCommand(f"no file {args.path!r}")
    return [(str(path), _read(path, partial(_codex_file, path))) for path in candidates if path.is_file()]


def _codex_file(path: Path, text: str) -> Imported:
    return (from_codex_config if path.suffix == ".toml" else from_codex_rules)(text, origin=path.name)


def _read(path: Path, read: Callable[[str], Imported]) -> Imported:
    try:
        return read(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        return Imported(left=((path.name, f"it cannot be read: {problem}"),))


def _checked(rule: Rule, options: Options) -> Rule | str:
    """The rule as our own file would have it, or why it cannot be written there."""
    import tomllib

    home = options.environment.get("HOME") or str(Path.home())
    table = tomllib.loads(rule_text(rule))["rules"][0]
    try:
        return read_rule(table, "import", base=str(options.cwd), home=home)
    except Misconfigured as problem:
        return str(problem)


def _key(rule: Rule) -> Rule:
    return replace(rule, source="", why="")


def _mode_words(mode: str) -> str:
    return f"mode = {mode!r}" if " " not in mode else mode


def _agrees(count: int, files: RuleFiles) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input(f"write {count} rule{'s' * (count != 1)} to {files.user}? [y/N] ").strip().lower() in ("y", "yes")
