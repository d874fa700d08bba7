"""Check this machine, and say how to install or fix what is missing.

  hames doctor           one line each: Python, the configuration, the sandbox (tested by trying to break out),
                         programs, the model provider (asked for its models), directories, MCP servers (started and
                         stopped)
  hames doctor --json    the same as JSON
  hames doctor --store postgresql://db/hames
                         and the database that keeps threads (HAMES_STORE names it, too)

Exit code: 0 if everything that hames needs works, 1 if something is missing.
"""

import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import anyio
import msgspec

from hames import __version__
from hames.app import catalogue, check_plugins, database_report
from hames.app.toolbox import sandbox_settings
from hames.cli import flags, login
from hames.cli.config import notes
from hames.cli.directories import is_writable
from hames.cli.mcp import check, described
from hames.cli.paint import Paint
from hames.cli.wrapping import columns, fold
from hames.config.load import Options
from hames.config.paths import user_config
from hames.config.project import other_agents_files
from hames.config.sandbox_proof import note_proof
from hames.domain.display import visible
from hames.domain.errors import HarnessError
from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.project_notes import complaint
from hames.domain.value import Value
from hames.executables import find_program, find_ripgrep
from hames.sandbox.local import LocalSandbox
from hames.sandbox.proof.escape_test import prove


class DoctorFinding(Value):
    name: str
    good: bool
    says: str
    needed: bool = True


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser, flags.THREADS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--store", metavar="URL", help="also check this PostgreSQL database (default: HAMES_STORE)")


def run(args: Namespace) -> int:
    problems: list[str] = []
    options = flags.options(args, problems=problems)
    findings = [*_machine(), *_configuration(problems), *anyio.run(_sandbox, options), *_programs()]
    findings += [*anyio.run(_provider, options), *_places(options), *_plugins(options), *_servers(options)]
    if address := args.store or os.environ.get("HAMES_STORE"):
        findings.append(anyio.run(_store, address))
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(findings)).decode())
    else:
        _show(findings)
    return 0 if all(finding.good or not finding.needed for finding in findings) else 1


def _show(findings: list[DoctorFinding]) -> None:
    paint, width = Paint.for_stream(sys.stdout), columns(sys.stdout)
    for finding in findings:
        mark = paint.good("✓") if finding.good else paint.bad("✗") if finding.needed else paint.warn("–")
        name = f"{visible(finding.name):<12}"
        print(f"{mark} {paint.bold(name)} {fold(visible(finding.says), width, indent=len(name) + 3)}")


def _configuration(problems: list[str]) -> list[DoctorFinding]:
    """What is wrong with the configuration, one line each. Everything else is checked with the defaults."""
    file = Path(user_config(os.environ))
    there = f"{file}" if file.exists() else f"{file} (not there; the defaults are used)"
    if not problems:
        return [DoctorFinding(name="config", good=True, says=there)]
    return [DoctorFinding(name="config", good=False, says=problem) for problem in problems]


def _machine() -> list[DoctorFinding]:
    version = platform.python_version()
    good = sys.version_info >= (3, 11)
    return [
        DoctorFinding(name="hames", good=True, says=__version__),
        DoctorFinding(name="python", good=good, says=version if good else f"{version}: 3.11 or newer is needed"),
        DoctorFinding(
            name="system",
            good=sys.platform == "linux",
            says=f"{platform.system()} {platform.release()}"
            + ("" if sys.platform == "linux" else ": only Linux is tested"),
            needed=False,
        ),
    ]


async def _sandbox(options: Options) -> list[DoctorFinding]:
    """Which sandbox there is, and whether it holds: every known way out is tried, from inside."""
    sandbox = LocalSandbox(sandbox_settings(options), environ=options.environment)
    walls = await sandbox.walls()
    found = [DoctorFinding(name="sandbox", good=walls.kind != "none", says=walls.sentence)]
    if walls.kind == "none":
        return found
    found.append(_home(sandbox.visible_of_home(str(options.cwd)), options))
    tried_policies = {
        "readOnly": ReadOnly(),
        "workspaceWrite": WorkspaceWrite(),
        "workspaceWrite with networkAccess": WorkspaceWrite(network_access=True),
    }
    for name, policy in tried_policies.items():
        holds, says = await try_escapes(policy)
        found.append(DoctorFinding(name="escapes", good=holds, says=f"{name}: {says}"))
    note_proof(options.state_dir, holds=all(finding.good for finding in found))
    return found


async def try_escapes(policy: SandboxPolicy) -> tuple[bool, str]:
    """Whether the sandbox holds, and what was tried, in words."""
    try:
        tried = await prove(policy)
    except HarnessError as problem:
        return False, str(problem)
    out = [one.attempt for one in tried if one.escaped]
    says = f"{len(tried)} attempts to break out, {len(out)} succeeded"
    says += f": {', '.join(out)}" if out else ""
    return bool(tried) and not out, says


def _home(names: list[str] | None, options: Options) -> DoctorFinding:
    """What commands see of the home directory."""
    if names is None:
        says = "the workspace contains the home directory: commands see all of it except files known to hold secrets"
        return DoctorFinding(name="home", good=False, says=says, needed=False)
    home = options.environment.get("HOME") or str(Path.home())
    shown = ", ".join(name for name in names if Path(home, name).exists()) or "nothing"
    more = "add more with extra_read and extra_cache in config.toml"
    return DoctorFinding(name="home", good=True, says=f"commands see a private home directory with: {shown} ({more})")


def _programs() -> list[DoctorFinding]:
    rg, git = find_ripgrep(), find_program("git", path=os.environ.get("PATH"))
    return [
        DoctorFinding(
            name="ripgrep",
            good=bool(rg),
            says=rg or "missing: apt install ripgrep, or pip install 'hames[bins]'; without it the agent cannot search",
        ),
        DoctorFinding(name="git", good=bool(git), says=git or "missing: apt install git", needed=False),
    ]


async def _provider(options: Options) -> list[DoctorFinding]:
    """Whether new threads can use their model: its provider has a key, and answers. Keys are never shown."""
    models = catalogue(options)
    try:
        card = models.find(options.model or models.default)
    except HarnessError as problem:
        return [DoctorFinding(name="model", good=False, says=str(problem))]
    # Nobody has chosen this one: without a key it is only what `hames setup` is for.
    chosen = bool(options.model)
    found = [DoctorFinding(name="model", good=True, says=f"{card.id} ({options.settings['model'].origin})")]
    if card.provider not in login.providers():
        return [*found, DoctorFinding(name=card.provider, good=True, says="needs no key")]
    count, problem = await login.ask_for_models(models, card.provider)
    says = problem or f"answers, and lists {count} model{'s' * (count != 1)}"
    found.append(DoctorFinding(name=card.provider, good=not problem, says=says, needed=chosen))
    others = [
        name
        for name, variable in login.providers().items()
        if name != card.provider and options.environment.get(variable)
    ]
    return [*found, *(DoctorFinding(name=name, good=True, says="has a key", needed=False) for name in others)]


def _places(options: Options) -> list[DoctorFinding]:
    said = [("threads", options.data_dir), ("state", options.state_dir)]
    found = [DoctorFinding(name=name, good=is_writable(path), says=_described(path)) for name, path in said]
    found += [DoctorFinding(name="project", good=False, says=warning, needed=False) for warning in options.warnings]
    if unread := other_agents_files(options.cwd):
        found.append(DoctorFinding(name="unread", good=False, says=unread, needed=False))
    read = notes(options)
    paths = [note.path for note in read if note.text]
    found.append(DoctorFinding(name="notes", good=True, says=", ".join(paths) or "no AGENTS.md or CLAUDE.md here"))
    problems = [words for note in read if (words := complaint(note))]
    return [*found, *(DoctorFinding(name="notes", good=False, says=words, needed=False) for words in problems)]


async def _store(address: str) -> DoctorFinding:
    """Whether the database that keeps threads can be used."""
    try:
        found = await database_report(address)
    except HarnessError as problem:
        return DoctorFinding(name="store", good=False, says=str(problem))
    kept = f"synchronous_commit {found.synchronous_commit}" + (f", standbys {found.standbys}" if found.standbys else "")
    says = f"{found.address}: PostgreSQL {found.server}, {found.threads} threads, {found.nodes} nodes, {kept}"
    return DoctorFinding(name="store", good=not found.problems, says="; ".join([says, *found.problems]))


def _plugins(options: Options) -> list[DoctorFinding]:
    """What installed packages add, and what of it cannot be used."""
    names, problems = check_plugins(options)
    found = [DoctorFinding(name="plug-ins", good=True, says=", ".join(names))] if names else []
    return [*found, *(DoctorFinding(name="plug-ins", good=False, says=words, needed=False) for words in problems)]


def _servers(options: Options) -> list[DoctorFinding]:
    """Each MCP server, started and stopped for it."""
    return [
        DoctorFinding(name=f"mcp {name}", good=status.state == "ready", says=described(status), needed=False)
        for name, status in check(options).items()
    ]


def _described(path: Path) -> str:
    return f"{path}" if is_writable(path) else f"{path} cannot be written: choose another with --data-dir"
