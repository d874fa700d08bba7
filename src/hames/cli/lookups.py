"""Values for shell completion (models, threads, servers): one a line, with a description behind a tab.

A completion never fails aloud: with a broken configuration there is nothing to offer, and the command itself says why.
"""

import os
from collections.abc import Callable

import anyio

from hames.config.load import Options, load
from hames.domain.commands import ThreadPage
from hames.domain.display import visible
from hames.domain.errors import HarnessError

MOST_THREADS = 50


def values(kind: str) -> list[str]:
    try:
        return list(dict.fromkeys(KINDS[kind](load({}, os.environ))))
    except HarnessError:
        return []


def _models(options: Options) -> list[str]:
    from hames.app import catalogue

    return [_row(card.id, card.description) for card in catalogue(options).cards() if not card.successor]


def _options(options: Options) -> list[str]:
    from hames.app import catalogue
    from hames.protocols.flint.options import AGENT

    return [
        _row(f"{selector.id}={choice.id}", choice.description or choice.name)
        for selector in (*catalogue(options).selectors(), AGENT)
        for choice in selector.choices
    ]


def _threads(options: Options) -> list[str]:
    from hames.app import thread_store

    async def listed() -> ThreadPage:
        return await thread_store(options).page(limit=MOST_THREADS, cursor=None, archived=False, search="")

    found = anyio.run(listed).threads
    return [_row("last", "the newest"), *(_row(thread.id, thread.title or thread.preview) for thread in found)]


def _servers(options: Options) -> list[str]:
    return [_row(name, server.url or server.command) for name, server in options.mcp_servers.items()]


def _row(value: str, description: str) -> str:
    flat = " ".join(visible(description).split())[:60]
    return f"{value}\t{flat}" if flat else value


KINDS: dict[str, Callable[[Options], list[str]]] = {
    "models": _models,
    "threads": _threads,
    "options": _options,
    "servers": _servers,
}
