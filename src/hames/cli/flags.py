"""The flags that every command shares, and the options they lead to."""

import os
from argparse import ArgumentParser, Namespace

from hames.config.options import Options, load
from hames.domain.errors import Misconfigured

SHARED = {
    "--cwd": ("DIR", "the workspace (default: here)"),
    "--data-dir": ("DIR", "where threads are kept (default: .harness in the workspace)"),
    "--model": ("MODEL", "provider/model, or a bare model name"),
    "--agent": ("NAME", "an agent with a loop of its own instead of a model: codex"),
    "--approval-policy": ("POLICY", "never, unlessTrusted or always"),
    "--sandbox": ("POLICY", "readOnly, workspaceWrite, dangerFullAccess or externalSandbox"),
    "--log-file": ("FILE", "write logs there instead of stderr"),
    "--log-level": ("LEVEL", "debug, info, warning or error"),
}


def add_shared(parser: ArgumentParser) -> None:
    for name, (value, words) in SHARED.items():
        parser.add_argument(name, metavar=value, help=words)


def options(args: Namespace) -> Options:
    """The effective configuration. Raises `Misconfigured`."""
    names = [name.removeprefix("--").replace("-", "_") for name in SHARED]
    given = {name: getattr(args, name) for name in names}
    if agent := given.pop("agent"):
        from hames.agents.codex import codex_command

        if agent != "codex":
            raise Misconfigured(f"no agent {agent!r}; there is one: codex")
        if codex_command(os.environ) is None:
            raise Misconfigured("codex is not installed: npm install -g @openai/codex, or name it in HAMES_CODEX")
        given["model"] = f"{agent}/{given['model'] or 'default'}"
    return load(given, os.environ)
