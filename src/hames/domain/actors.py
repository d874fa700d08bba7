"""Who did something, and from where: what the log says about every prompt, answer, interrupt and change of settings.

The identity (`kind`, `name`) comes from the connection: the account that a process runs as, or the token that was
presented. What a client says about itself is only ever its `client`.
"""

from typing import Literal

from msgspec.structs import replace

from hames.domain.value import Value

ActorKind = Literal["user", "token", "client", "rule", "agent", "hames"]
"""`user`: a local account. `token`: a named access token. `client`: a program that has no account and no token here.
`rule`: something that was allowed before. `agent`: the model. `hames`: the harness itself."""

CLIENT_CHARS = 80
OUR_CLIENTS = {"hames-tui": "terminal", "hames-run": "run", "hames-exec": "run"}
"""What our own programs call themselves, and where somebody who uses them is."""


class Actor(Value, omit_defaults=True):
    kind: ActorKind
    name: str = ""
    """The account's login name, or the token's name."""
    via: str = ""
    """How it came in: `terminal`, `page`, `run`, `flint`, `bootstrap`, `sync`, `http`, `runner`, `library`, …"""
    client: str = ""
    """What the client calls itself. Anybody can claim any name here."""

    def __str__(self) -> str:
        who = self.name or {"hames": "Hames", "rule": "a rule", "agent": "the agent"}.get(self.kind, self.kind)
        where = [word for word in (self.via, self.client) if word]
        return f"{who} ({', '.join(where)})" if where else who


HAMES = Actor(kind="hames")


def with_client(actor: Actor, client: str) -> Actor:
    """The same actor, through a client that calls itself this."""
    if not client:
        return actor
    if actor.kind == "user" and actor.via == "flint" and client in OUR_CLIENTS:
        return replace(actor, via=OUR_CLIENTS[client])
    return replace(actor, client="".join(char for char in client if char.isprintable())[:CLIENT_CHARS])
