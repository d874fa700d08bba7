"""Tokens for other people and programs that use `hames serve` or `hames runner`: each with a name and a role.

  hames tokens add alice --role driver            prints the token, once
  hames tokens add ci --role observer --expires 30d
  hames tokens list
  hames tokens revoke alice                       ends her open connections, too
  hames tokens list --store postgresql://db/hames the tokens of all servers of a shared store (HAMES_STORE)

observer: sees threads and changes nothing. driver: sends prompts, interrupts, changes settings; can't answer approvals
and can't make the approval or sandbox policy less strict. approver: everything a driver may do, and answers approvals.
The start-up token (`hames serve --token`) and this user's own programs may do everything.

A client sends its token as `Authorization: Bearer TOKEN`. The log of each thread says who did what. Tokens belong to
the state directory, or to the shared store, and running servers notice changes within a second.
Exit code: 0, 1 if the database cannot be reached, or 2 for a name that is taken, unknown or not valid.
"""

import os
import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio

from hames.config.paths import user_state
from hames.domain.errors import InvalidCommand
from hames.domain.roles import NAMED_ROLES
from hames.domain.tokens import NamedToken
from hames.server.guard.named_tokens import TAKEN, TokenFile, make_token

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
    for action in actions.choices.values():
        action.add_argument("--store", metavar="URL", default="", help="of this PostgreSQL store (HAMES_STORE)")


def run(args: Namespace) -> int:
    now_ms = time.time_ns() // 1_000_000
    address = args.store or os.environ.get("HAMES_STORE", "")
    if address:
        return anyio.run(_in_store, address, args, now_ms)
    tokens = TokenFile(Path(user_state(os.environ)))
    match args.action:
        case "add":
            print(tokens.add(args.name, args.role, now_ms=now_ms, lasts_ms=_lasts_ms(args.expires)))
        case "list":
            _print_list(tokens.read(), now_ms)
        case _:
            _print_revoked(args.name, was_there=tokens.revoke(args.name))
    return 0


async def _in_store(address: str, args: Namespace, now_ms: int) -> int:
    from hames.app.nodes import open_server_state

    async with open_server_state(address) as state:
        match args.action:
            case "add":
                token, made = make_token(args.name, args.role, now_ms=now_ms, lasts_ms=_lasts_ms(args.expires))
                if not await state.add_token(made, now_ms=now_ms):
                    raise InvalidCommand(TAKEN.format(name=args.name))
                print(token)
            case "list":
                _print_list(await state.tokens(), now_ms)
            case _:
                _print_revoked(args.name, was_there=await state.revoke_token(args.name))
    return 0


def _print_list(tokens: Sequence[NamedToken], now_ms: int) -> None:
    for token in tokens:
        print(_row(token, now_ms))


def _print_revoked(name: str, *, was_there: bool) -> None:
    """Raises `InvalidCommand`."""
    if not was_there:
        raise InvalidCommand(f"there is no token {name!r}; hames tokens list shows them")
    print(f"revoked {name}")


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
