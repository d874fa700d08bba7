"""Commands that ask a server of their own one thing and go."""

import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable

import anyio

from hames.cli import flags
from hames.cli.in_process import in_process
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.link import AppServerError, ConnectionClosed
from hames.client.unreachable import Unreachable
from hames.domain.errors import HarnessError


def reader_left() -> None:
    """Whoever read our words has gone; nothing may be written there again, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Refused(HarnessError):
    """The server said no, in its own words."""


def asked(args: Namespace, ask: Callable[[AppServerClient], Awaitable[int]]) -> int:
    """Raises `Refused` with the server's sentence."""
    options = flags.options(args)

    async def talk() -> int:
        async with in_process(options, name="hames-cli") as client:
            try:
                return await ask(client)
            except (AppServerError, ConnectionClosed, Refused) as refusal:
                said.append(str(refusal))
            except BrokenPipeError:
                reader_left()
            return 1

    said: list[str] = []
    try:
        code = anyio.run(talk)
    except Unreachable as failure:
        raise Refused(str(failure)) from None
    if said:
        raise Refused(said[0])
    return code
