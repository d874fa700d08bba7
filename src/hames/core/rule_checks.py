"""Asks the rules that people wrote down about what an agent wants, off the event loop and with a deadline."""

from collections.abc import Sequence
from functools import partial

import anyio
from anyio import to_thread
from msgspec.structs import replace

from hames.domain.approvals import Elicit, Harmless, Intent, UseTool
from hames.domain.network import NetworkRules
from hames.domain.options import Settings
from hames.domain.policy import SandboxPolicy, WorkspaceWrite, has_network
from hames.domain.rules import ACTIONS, NO_RULE, Rule, RuleVerdict, in_doubt
from hames.ports import RuleBook

JUDGE_SECONDS = 5.0
"""How long the rules may be looked at for one intent. After that a person is asked."""


def rules_in_force(book: RuleBook | None, settings: Settings, workspace: str) -> tuple[Rule, ...]:
    return (*settings.rules, *book.in_force(workspace)) if book is not None else settings.rules


async def judge_by_rules(book: RuleBook | None, intent: Intent | Elicit, settings: Settings) -> RuleVerdict:
    """What the rules say; nothing where there are none, at no cost."""
    if book is None or isinstance(intent, Elicit) or (isinstance(intent, Harmless) and not intent.reads):
        return NO_RULE
    if not (rules := rules_in_force(book, settings, settings.cwd)):
        return NO_RULE
    judge = partial(book.judge, intent, rules, cwd=settings.cwd, workspace=settings.cwd, sandbox=settings.sandbox)
    with anyio.move_on_after(JUDGE_SECONDS):
        return await to_thread.run_sync(judge, abandon_on_cancel=True)
    tight = next((rule for rule in rules if rule.action != "allow"), None)
    return in_doubt(tight, "the rules took too long to check") if tight is not None else NO_RULE


async def offered_rule(book: RuleBook | None, intent: Intent | Elicit, settings: Settings) -> Rule | None:
    """The rule that an answer may keep for this project, so that the same kind of thing is not asked about again."""
    if book is None or settings.approval_policy == "always" or isinstance(intent, Elicit | UseTool | Harmless):
        return None
    suggest = partial(book.suggest, intent, workspace=settings.cwd)
    with anyio.move_on_after(JUDGE_SECONDS):
        return await to_thread.run_sync(suggest, abandon_on_cancel=True)
    return None


def with_host_rules(sandbox: SandboxPolicy, rules: Sequence[Rule]) -> SandboxPolicy:
    """The policy with the rules about hosts, which hold for whatever a command starts.

    A rule that allows a host takes away the question and opens no network that is closed.
    """
    named = [rule for rule in rules if rule.host]
    if not named or not isinstance(sandbox, WorkspaceWrite) or not has_network(sandbox):
        return sandbox
    hosts = sandbox.hosts or NetworkRules()
    patterns = {action: _patterns(named, action) for action in ACTIONS}
    allow = patterns["allow"] if sandbox.hosts is not None else ()
    if not (allow or patterns["deny"] or patterns["ask"]):
        return sandbox
    more = NetworkRules(allow=(*hosts.allow, *allow), deny=(*hosts.deny, *patterns["deny"]), ask=patterns["ask"])
    return replace(sandbox, network=more)


def _patterns(rules: Sequence[Rule], action: str) -> tuple[str, ...]:
    """In a rule `*.example.org` is also about `example.org`; in the policy of a sandbox it is not."""
    hosts = (rule.host for rule in rules if rule.action == action)
    return tuple(name for host in hosts for name in ((host, host[2:]) if host.startswith("*.") else (host,)))
