"""Say what the agent may do here, and why; take over rules of other tools.

  hames policy why "git push origin main"          what would happen, and which rule decides
  hames policy why "pytest -q" --mode ask --cwd ../other
  hames policy why --write src/app.py              the same for changing a file; also --read, --host, --mcp
  hames policy list                                the rules in force here, and where each is written
  hames policy import claude                       rules from .claude/settings.json: shows what it would take
  hames policy import codex ~/.codex --yes         rules from Codex, written to your config.toml

Exit code of `why`: 0 it would run, 3 you would be asked, 1 it would be refused.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from msgspec.structs import replace

from hames.cli import flags
from hames.cli.policy.take_over import import_rules
from hames.config.load import Options
from hames.config.rules import RuleFiles
from hames.config.sandbox_proof import is_sandbox_proved
from hames.domain.approvals import CallMcp, ChangeFiles, Harmless, Intent, RunCommand
from hames.domain.display import visible
from hames.domain.errors import InvalidCommand
from hames.domain.items import FileUpdate
from hames.domain.modes import ModeName, default_policy, mode_of
from hames.domain.policy import AgentName, ApprovalPolicy, DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy
from hames.domain.rules import Rule, shown_rule
from hames.domain.rulings import Ruling, Verdict, decide

EXIT_CODES = {"allow": 0, "ask": 3, "deny": 1}


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser, flags.WORKSPACE)
    what = parser.add_subparsers(dest="what", required=True, metavar="why|list|import")
    why = what.add_parser("why", help="what would happen, and which rule decides")
    why.add_argument("command", nargs="?", help="a command, in quotes")
    flags.add_shared(why, ("--cwd", "--mode", "--approval-policy", "--sandbox"))
    why.add_argument("--outside", action="store_true", help="as if the agent asked to leave the sandbox")
    why.add_argument("--read", metavar="FILE", help="reading this file")
    why.add_argument("--write", metavar="FILE", help="changing this file")
    why.add_argument("--host", metavar="HOST", help="fetching a page from this host")
    why.add_argument("--mcp", metavar="SERVER/TOOL", help="calling this tool")
    why.add_argument("--json", action="store_true", help="print JSON")
    listing = what.add_parser("list", help="the rules in force here, and where each is written")
    flags.add_shared(listing, flags.WORKSPACE)
    listing.add_argument("--json", action="store_true", help="print JSON")
    take = what.add_parser("import", help="take over the rules of Claude Code or Codex")
    take.add_argument("tool", choices=("claude", "codex"))
    take.add_argument("path", nargs="?", metavar="FILE", help="the file or its directory (default: the usual places)")
    take.add_argument("--yes", action="store_true", help="write them without a question")
    flags.add_shared(take, flags.WORKSPACE)


def run(args: Namespace) -> int:
    match args.what:
        case "why":
            return _why(args)
        case "list":
            return _list(args)
        case _:
            options = flags.options(args)
            return import_rules(args, options, RuleFiles(os.environ))


def _rules(options: Options) -> tuple[RuleFiles, tuple[Rule, ...]]:
    files = RuleFiles(os.environ, options.rules)
    return files, files.in_force(str(options.cwd))


def _list(args: Namespace) -> int:
    options = flags.options(args)
    files, rules = _rules(options)
    if args.json:
        import msgspec

        print(msgspec.json.encode(rules).decode())
        return 0
    for rule in rules:
        where = f" (only in {rule.project})" if rule.project else ""
        why = f"  # {rule.why}" if rule.why else ""
        print(visible(f"{shown_rule(rule)}{where}{why}"))
    if not rules:
        print("no rules are in force here; docs/approvals.md shows how to write one")
    for problem in files.problems:
        print(visible(problem))
    if any(rule.host for rule in rules):
        print("host rules hold for web_fetch and for commands that name the host; the network proxy does not know them")
    return 0


def _why(args: Namespace) -> int:
    options = flags.options(args)
    _, rules = _rules(options)
    intent = _intent(args, options)
    options = _with_default(options)
    agent, sandbox = options.agent, options.sandbox
    if agent != "code":
        sandbox = ReadOnly()
    ruling = judge(intent, rules, options, policy=options.approval_policy, agent=agent, sandbox=sandbox)
    if args.json:
        import msgspec

        table = {"action": ruling.action, "reason": _reason(ruling, options), "rule": ruling.rule}
        print(msgspec.json.encode(table).decode())
    else:
        print(visible(_sentence(ruling, intent)))
        print(visible(f"because {_reason(ruling, options)}"))
    return EXIT_CODES[ruling.action]


def _with_default(options: Options) -> Options:
    """With the policy that our own terminal would start a thread with."""
    if options.settings["approval_policy"].origin != "default":
        return options
    return replace(
        options, approval_policy=default_policy(options.sandbox, proved=is_sandbox_proved(options.state_dir))
    )


def judge(
    intent: Intent,
    rules: tuple[Rule, ...],
    options: Options,
    *,
    policy: ApprovalPolicy,
    agent: AgentName,
    sandbox: SandboxPolicy,
) -> Ruling:
    """As the engine decides, for a thread in this directory with no earlier answers."""
    from hames.sandbox.trust.rules.judge import judge_intent
    from hames.sandbox.trust.shell_trust import ShellTrust

    cwd = str(options.cwd)
    verdict = Verdict(trusted=False)
    if isinstance(intent, RunCommand) and not intent.url:
        verdict = ShellTrust().judge(intent.command, cwd=cwd, workspace=cwd)
    judged = judge_intent(intent, rules, cwd=cwd, workspace=cwd, sandbox=sandbox)
    return decide(intent, policy=policy, sandbox=sandbox, grants=(), verdict=verdict, rules=judged, agent=agent)


def _intent(args: Namespace, options: Options) -> Intent:
    given = [name for name in ("command", "read", "write", "host", "mcp") if getattr(args, name)]
    if len(given) != 1:
        raise InvalidCommand(
            'name one thing: a command in quotes, --read, --write, --host or --mcp; hames policy why "ls"'
        )
    match given[0]:
        case "command":
            return RunCommand(command=args.command, cwd=str(options.cwd), unsandboxed=args.outside)
        case "read":
            return Harmless(reads=(str(Path(options.cwd, args.read).absolute()),))
        case "write":
            path = os.path.normpath(Path(options.cwd, args.write))
            return ChangeFiles(changes=(FileUpdate(path=path, kind="modify", diff=""),))
        case "host":
            url = f"https://{args.host}/"
            return RunCommand(command=f"web_fetch {url}", cwd=str(options.cwd), unsandboxed=True, url=url)
        case _:
            server, _, tool = args.mcp.partition("/")
            return CallMcp(server=server, tool=tool)


def _sentence(ruling: Ruling, intent: Intent) -> str:
    if ruling.action == "ask":
        return "you would be asked"
    if ruling.action == "deny":
        return "it would be refused"
    if not isinstance(intent, RunCommand) or intent.url:
        return "it would happen without a question"
    walls = isinstance(ruling.sandbox, DangerFullAccess | ExternalSandbox)
    return f"it would run without a question, {'outside' if walls else 'in'} the sandbox"


def _reason(ruling: Ruling, options: Options) -> str:
    """Names the rule that decided; else the policy, and what it says."""
    if ruling.rule is not None:
        return ruling.reason or f"of the rule {shown_rule(ruling.rule)}"
    setting = options.settings["approval_policy"]
    called = _called(mode_of(options.agent, options.approval_policy), options)
    why = f"{ruling.reason}; " if ruling.reason else ""
    return f"{why}no rule decides, and {called} ({setting.origin}) {_means(ruling)}"


def _called(mode: ModeName | None, options: Options) -> str:
    if options.agent == "plan":
        return "plan mode"
    return f"the mode {mode}" if mode else f"the approval policy {options.approval_policy}"


def _means(ruling: Ruling) -> str:
    return {"allow": "lets it run", "ask": "asks", "deny": "refuses it"}[ruling.action]
