"""Check what this machine offers, and say how to get what is missing.

  hames doctor           one line each: Python, the sandbox (proved by trying to escape), programs, keys, directories,
                         MCP servers (each is started and stopped)
  hames doctor --json    the same as JSON

Exit code: 0 when everything hames needs is there, 1 when something is missing.
"""

import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import anyio
import msgspec

from hames import __version__
from hames.app import sandbox_settings
from hames.cli import flags
from hames.cli.config import notes
from hames.cli.directories import usable
from hames.cli.mcp import check, described
from hames.cli.paint import Paint
from hames.config.options import Options
from hames.domain.display import visible
from hames.domain.errors import HarnessError
from hames.domain.notes import complaint
from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.domain.value import Value
from hames.executables import find_program, find_ripgrep
from hames.sandbox.local import LocalSandbox
from hames.sandbox.proof.escape_test import prove

KEYS = {"ANTHROPIC_API_KEY": "Claude", "OPENAI_API_KEY": "OpenAI"}


class DoctorFinding(Value):
    name: str
    good: bool
    says: str
    needed: bool = True


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser, flags.THREADS)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: Namespace) -> int:
    options = flags.options(args)
    findings = [*_machine(), *anyio.run(_sandbox, options), *_programs(), *_keys(options)]
    findings += [*_places(options), *_servers(options)]
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(findings)).decode())
    else:
        _show(findings)
    return 0 if all(finding.good or not finding.needed for finding in findings) else 1


def _show(findings: list[DoctorFinding]) -> None:
    paint = Paint.for_stream(sys.stdout)
    for finding in findings:
        mark = paint.good("✓") if finding.good else paint.bad("✗") if finding.needed else paint.warn("–")
        print(f"{mark} {paint.bold(f'{visible(finding.name):<12}')} {visible(finding.says)}")


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
    """Which walls there are, and whether they hold: every known way out is tried, from inside."""
    sandbox = LocalSandbox(sandbox_settings(options), environ=options.environment)
    walls = await sandbox.walls()
    found = [DoctorFinding(name="sandbox", good=walls.kind != "none", says=walls.sentence)]
    if walls.kind == "none":
        return found
    found.append(_home(sandbox.visible_of_home(str(options.cwd))))
    tried_policies = {
        "readOnly": ReadOnly(),
        "workspaceWrite": WorkspaceWrite(),
        "workspaceWrite with networkAccess": WorkspaceWrite(network_access=True),
    }
    for name, policy in tried_policies.items():
        try:
            tried = await prove(policy)
        except HarnessError as problem:
            found.append(DoctorFinding(name="walls", good=False, says=f"{name}: {problem}"))
            continue
        out = [one.attempt for one in tried if one.escaped and not one.known]
        known = [one.attempt for one in tried if one.escaped and one.known]
        says = f"{name}: {len(tried)} attempts to escape, {len(out)} got out"
        says += f": {', '.join(out)}" if out else ""
        says += f" (documented: {', '.join(known)})" if known else ""
        found.append(DoctorFinding(name="walls", good=bool(tried) and not out, says=says))
    return found


def _home(names: list[str] | None) -> DoctorFinding:
    """What commands see of the home directory."""
    if names is None:
        says = "the workspace holds the home directory: commands see all of it but files known to hold secrets"
        return DoctorFinding(name="home", good=False, says=says, needed=False)
    shown = ", ".join(names) or "nothing"
    more = "extra_read and extra_cache in config.toml show more"
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


def _keys(options: Options) -> list[DoctorFinding]:
    """Whether they are there, never what they are."""
    return [
        DoctorFinding(
            name=f"{whose} key",
            good=bool(options.environment.get(name)),
            says=f"{name} is set" if options.environment.get(name) else f"{name} is not set",
            needed=False,
        )
        for name, whose in KEYS.items()
    ]


def _places(options: Options) -> list[DoctorFinding]:
    said = [("threads", options.data_dir), ("state", options.state_dir)]
    found = [DoctorFinding(name=name, good=usable(path), says=_described(path)) for name, path in said]
    found += [DoctorFinding(name="project", good=False, says=warning, needed=False) for warning in options.warnings]
    read = notes(options)
    paths = [note.path for note in read if note.text]
    found.append(DoctorFinding(name="notes", good=True, says=", ".join(paths) or "no AGENTS.md or CLAUDE.md here"))
    problems = [words for note in read if (words := complaint(note))]
    return [*found, *(DoctorFinding(name="notes", good=False, says=words, needed=False) for words in problems)]


def _servers(options: Options) -> list[DoctorFinding]:
    """Each MCP server, started and stopped for it."""
    return [
        DoctorFinding(name=f"mcp {name}", good=status.state == "ready", says=described(status), needed=False)
        for name, status in check(options).items()
    ]


def _described(path: Path) -> str:
    return f"{path}" if usable(path) else f"{path} cannot be written: choose another with --data-dir"
