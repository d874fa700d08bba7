"""Which commands need no question: those that only read inside the workspace, as far as anyone can see.

Trust removes the question and never the sandbox.
"""

import os

from hames.ports import Verdict
from hames.sandbox.trust.commands.doubt import Doubt


class ShellTrust:
    """Implements `ports.Trust` for `bash -c`, run with a PATH that the agent cannot write to, no rc files and an
    allow-listed environment."""

    def judge(self, command: str, *, cwd: str, workspace: str) -> Verdict:
        # Imported when the first command is judged: no start of the harness waits for the tables.
        from hames.sandbox.trust.commands.command_line import WorkspaceJudge, follow
        from hames.sandbox.trust.commands.shell_words import read_commands

        try:
            judge = WorkspaceJudge(os.path.realpath(cwd), os.path.realpath(workspace))
            follow(read_commands(command), judge)
        except Doubt as doubt:
            return Verdict(trusted=False, reason=str(doubt))
        except Exception as error:  # a classifier that fails must not be the reason why something runs
            return Verdict(trusted=False, reason=f"the command could not be checked ({type(error).__name__})")
        return Verdict(trusted=True, sandbox_only=judge.sandbox_only)
