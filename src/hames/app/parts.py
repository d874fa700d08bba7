"""Parts of an engine that a start does not need: each is imported and built when it is first used."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hames.app.toolbox import Toolbox
from hames.config.load import Options
from hames.deferred import deferred
from hames.domain.budgets import Budgets
from hames.ports import Clock, DaySpending, Environment, Peers, RuleBook, Tool, Tools, Trust, Worktrees

if TYPE_CHECKING:
    from hames.checkpoints.local import WorkspaceCheckpoints


def checkpoints(options: Options) -> "WorkspaceCheckpoints | None":
    """What undo needs, if the user wants it."""
    if not options.undo_mb:
        return None

    def build() -> "WorkspaceCheckpoints":
        from hames.checkpoints.local import WorkspaceCheckpoints

        return WorkspaceCheckpoints(
            options.state_dir / "checkpoints",
            home=options.environment.get("HOME", ""),
            excluded=(str(options.data_dir), str(options.state_dir)),
            store_bytes=options.undo_mb << 20,
        )

    return deferred(build)


def added_tools(added: Sequence[Tool], tools: Tools | None) -> Tools:
    def build() -> Tools:
        from hames.tools.host import AddedTools

        return AddedTools(added, tools)

    return deferred(build)


def trust() -> Trust:
    def build() -> Trust:
        from hames.sandbox.trust.shell_trust import ShellTrust

        return ShellTrust()

    return deferred(build)


def environment(options: Options, toolbox: Toolbox, clock: Clock) -> Environment:
    def build() -> Environment:
        from hames.tools.environment import LocalEnvironment

        return LocalEnvironment(toolbox, clock, extra_path=options.extra_path)

    return deferred(build)


def peers(private_directory: Callable[[str], Path | None]) -> Peers:
    def build() -> Peers:
        from hames.server.peers.sockets import PeerSockets

        return PeerSockets(private_directory)

    return deferred(build)


def day_spending(options: Options) -> DaySpending | None:
    if options.budgets == Budgets():
        return None
    from hames.store.spending import day_spending

    return day_spending(options.budgets, options.state_dir)


def rule_book(options: Options) -> RuleBook:
    def build() -> RuleBook:
        from hames.config.rules import RuleFiles
        from hames.sandbox.trust.rules.book import FileRuleBook

        files = RuleFiles(options.environment, options.rules)
        return FileRuleBook(files.in_force, files.keep)

    return deferred(build)


def worktrees(options: Options, sandbox: Toolbox) -> Callable[[], Worktrees]:
    def build() -> Worktrees:
        from hames.config.paths import user_worktrees
        from hames.worktrees.local import LocalWorktrees

        return LocalWorktrees(Path(user_worktrees(options.environment)), options.state_dir, sandbox)

    return build
