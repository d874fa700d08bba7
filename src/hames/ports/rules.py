"""Rules that people wrote down: which are in force, and what they say about an intent."""

from typing import Protocol

from hames.domain.approvals import Intent
from hames.domain.policy import SandboxPolicy
from hames.domain.rules import Rule, RuleVerdict


class RuleBook(Protocol):
    """Rules from the user's files, the project's and the command line."""

    def in_force(self, workspace: str) -> tuple[Rule, ...]:
        """The rules for a workspace. A file that changed is read again. It raises nothing: what cannot be read
        any more keeps the rules it had."""
        ...

    def judge(
        self, intent: Intent, rules: tuple[Rule, ...], *, cwd: str, workspace: str, sandbox: SandboxPolicy
    ) -> RuleVerdict:
        """What `rules` say. It is called in a thread, may read the scripts that a command names, and raises nothing:
        what cannot be checked is asked about."""
        ...

    def suggest(self, intent: Intent, *, workspace: str) -> Rule | None:
        """A rule that would allow this and what is like it in this workspace; None: there is none to offer."""
        ...

    def keep(self, rule: Rule) -> Rule:
        """Writes a rule into the user's own file, and returns it with its place there. Raises `Misconfigured`."""
        ...
