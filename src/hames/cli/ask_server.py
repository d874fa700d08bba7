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
    """Points stdout at /dev/null after its reader has closed it: another write, even at exit, would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class ServerRefused(HarnessError):
    """The server refused a request; its sentence is the message."""


def ask_server(args: Namespace, ask: Callable[[AppServerClient], Awaitable[int]]) -> int:
    """Raises `Refused` with the server's sentence."""
    options = flags.options(args)

    async def talk() -> int:
        async with in_process(options, name="hames-cli", continues=False) as client:
            try:
                return await ask(client)
            except (AppServerError, ConnectionClosed, ServerRefused) as refusal:
                said.append(str(refusal))
            except BrokenPipeError:
                reader_left()
            return 1

    said: list[str] = []
    try:
        code = anyio.run(talk)
    except Unreachable as failure:
        raise ServerRefused(str(failure)) from None
    if said:
        raise ServerRefused(said[0])
    return code
