"""Tokens for other people and programs that use `hames serve` or `hames runner`: each with a name and a role.

  hames tokens add alice --role driver            prints the token, once
  hames tokens add ci --role observer --expires 30d
  hames tokens list
  hames tokens revoke alice                       ends her open connections, too

observer: sees threads and changes nothing. driver: sends prompts, interrupts, changes settings; can't answer approvals
and can't make the approval or sandbox policy less strict. approver: everything a driver may do, and answers approvals.
The start-up token (`hames serve --token`) and this user's own programs may do everything.

A client sends its token as `Authorization: Bearer TOKEN`. The log of each thread says who did what. Tokens belong to
the state directory, and running servers notice changes within a second.
Exit code: 0, or 2 for a name that is taken, unknown or not valid.
"""

import os
import re
import time
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path

from hames.config.paths import user_state
from hames.domain.errors import InvalidCommand
from hames.domain.roles import NAMED_ROLES
from hames.server.guard.named_tokens import NamedToken, TokenFile

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"(\d{1,6})([mhdw])")


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="make a token and print it")
    add.add_argument("name", help="whose token it is; the log shows this name")
    add.add_argument("--role", choices=NAMED_ROLES, required=True, help="what it allows")
    add.add_argument("--expires", metavar="TIME", help="how long it is valid: 12h, 30d, 8w (default: until revoked)")
    actions.add_parser("list", help="show the tokens: names, roles, and how long they are valid")
    revoke = actions.add_parser("revoke", help="make a token invalid at once")
    revoke.add_argument("name")


def run(args: Namespace) -> int:
    tokens, now_ms = TokenFile(Path(user_state(os.environ))), time.time_ns() // 1_000_000
    match args.action:
        case "add":
            print(tokens.add(args.name, args.role, now_ms=now_ms, lasts_ms=_lasts_ms(args.expires)))
        case "list":
            for token in tokens.read():
                print(_row(token, now_ms))
        case _:
            if not tokens.revoke(args.name):
                raise InvalidCommand(f"there is no token {args.name!r}; hames tokens list shows them")
            print(f"revoked {args.name}")
    return 0


def _lasts_ms(text: str | None) -> int:
    if text is None:
        return 0
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise InvalidCommand(f"{text!r} is not a time such as 12h, 30d or 8w")
    return int(found[1]) * _UNITS[found[2]] * 1000


def _row(token: NamedToken, now_ms: int) -> str:
    if not token.expires_at_ms:
        ends = "until it is revoked"
    else:
        when = datetime.fromtimestamp(token.expires_at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        ends = f"expired {when}" if token.is_expired(now_ms) else f"until {when}"
    return f"{token.name:<20} {token.role:<9} {ends}"
