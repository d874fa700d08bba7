"""The command line of a server of our own, from the flags that were given to us."""

from argparse import Namespace

from hames.cli import flags
from hames.config.load import Options
from hames.executables import hames_command


def server_command(args: Namespace, options: Options, *, attach: bool = False) -> list[str]:
    """`hames app-server` with the same flags, in the same workspace; `attach` leads to the server that runs there."""
    words = ["app-server", f"--cwd={options.cwd}"]
    if attach and (server := getattr(args, "server", "")):
        words += [f"--server={server}", *([f"--tls-ca={args.tls_ca}"] if args.tls_ca else [])]
    elif attach:
        words.append("--attach")
    for name in flags.SHARED:
        value = flags.given(args, name)
        if value is not None and name != "--cwd" and not (attach and name in flags.TERMS):
            words.append(f"{name}={value}")
    for rule in () if attach else flags.given_rules(args):
        words.append(f"--{rule['action']}={rule['command']}")
    return hames_command(*words, workspace=str(options.cwd))
