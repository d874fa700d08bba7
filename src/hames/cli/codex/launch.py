"""The launch options of Codex's app server, so that programs which start `codex app-server` can start ours."""

from argparse import ArgumentParser, Namespace
from typing import Final

from hames.domain.errors import Misconfigured


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-c",
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting as in Codex's configuration, for example model=NAME; the value is TOML or plain text",
    )
    for name in ("--enable", "--disable"):
        parser.add_argument(name, metavar="FEATURE", action="append", default=[], help="Codex's feature flags: ignored")
    parser.add_argument("--listen", metavar="URL", help="stdio:// (the default) or ws://IP:PORT")
    parser.add_argument("--stdio", action="store_true", help="the same as --listen stdio://")
    for name in ("--strict-config", "--analytics-default-enabled"):
        parser.add_argument(name, action="store_true", help="accepted for Codex's clients: no effect")
    parser.add_argument("--session-source", metavar="NAME", help="accepted for Codex's clients: no effect")


def is_codex_launch(args: Namespace) -> bool:
    """Whether only a program written for Codex's app server would start it like this."""
    return bool(args.listen or args.stdio or args.config or args.enable or args.disable or args.session_source)


def listen_address(args: Namespace) -> tuple[str, int] | None:
    """Host and port of a WebSocket; None for stdin and stdout. Raises `Misconfigured`."""
    url = args.listen or "stdio://"
    if url == "stdio://" or args.stdio:
        return None
    kind, found, rest = url.partition("://")
    host, colon, port = rest.rstrip("/").rpartition(":")
    if kind != "ws" or not found:
        raise Misconfigured(f"--listen is {url!r}; it must be stdio:// or ws://IP:PORT")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise Misconfigured(f"--listen is {url!r}; it must name an address and a port, as ws://127.0.0.1:4500 does")
    return host.removeprefix("[").removesuffix("]"), int(port)


def command_first(words: list[str], commands: tuple[str, ...]) -> list[str]:
    """The command's name before the options that stand in front of it: `-c model=o3 app-server`.

    >>> command_first(["-c", "model=o3", "--enable=x", "app-server", "--stdio"], ("app-server",))
    ['app-server', '-c', 'model=o3', '--enable=x', '--stdio']
    >>> command_first(["-c", "app-server"], ("app-server",))
    ['-c', 'app-server']
    """
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, equals, _ = words[place].partition("=")
        joined = name.startswith("-c") and name != "-c"
        if name not in _VALUED and not joined:
            return words
        place += 1 if (equals and name.startswith("--")) or joined else 2
    if place >= len(words) or words[place] not in commands:
        return words
    return [words[place], *words[:place], *words[place + 1 :]]


_VALUED: Final = frozenset(
    {
        *("-c", "--config", "--enable", "--disable", "-m", "--model", "-C", "--cd", "--cwd", "-s", "--sandbox"),
        *("-a", "--ask-for-approval", "--approval-policy", "--data-dir", "--log-file", "--log-level", "--agent"),
    }
)
"""Options with a value that may stand before the command."""
