"""Whether one command may connect to a host: by the rules of its sandbox, else by a person's answer.

A question is asked once for each host and port of a command, one at a time, and the connection waits for the answer.
It is put in another thread, on another event loop: a worker thread waits for it, so that no loop waits for another.
"""

from collections.abc import Callable
from concurrent.futures import CancelledError

import anyio
from anyio import to_thread

from hames.domain.network import HostPort, NetworkRules, is_allowed, is_asked_about, is_denied
from hames.sandbox.walls.network.destinations import Destination

ASKED_ABOUT = 16
"""So many hosts of one command are asked about. What asks for more is refused: nobody reads that many questions."""

NOBODY_TO_ASK = "is not an allowed host, and for this command nobody is asked"
NOBODY_ASKED_BY_RULE = "is asked about by a rule, and for this command nobody is asked"
ENDED = "is not an allowed host, and the command has ended"


class HostGate:
    """`ask` blocks, and returns the reason for a no or an empty text; None: nobody is asked. `every_host`: all that are
    not denied are allowed."""

    def __init__(
        self, rules: NetworkRules, *, every_host: bool = False, ask: Callable[[HostPort], str] | None = None
    ) -> None:
        self._rules = rules
        self._every_host = every_host
        self._ask = ask
        self._answers: dict[Destination, str] = {}
        self._turn = anyio.Lock()

    @property
    def names_hosts(self) -> bool:
        """Whether a connection is allowed for its name, so that it has to be used for that name."""
        return not self._every_host or bool(self._rules.deny or self._rules.ask)

    async def refusal(self, to: Destination) -> str:
        """Why it may not connect there, as the end of a sentence that begins with the destination; empty: it may."""
        if to.address is not None:
            return "" if not self.names_hosts else "is an address: connect to the host by its name"
        if is_denied(self._rules, to.host, to.port):
            return "is denied by `network.deny` of the configuration"
        asked = is_asked_about(self._rules, to.host, to.port)
        if not asked and (self._every_host or is_allowed(self._rules, to.host, to.port)):
            return ""
        if self._ask is None:
            return NOBODY_ASKED_BY_RULE if asked else NOBODY_TO_ASK
        async with self._turn:
            if to not in self._answers:
                if len(self._answers) >= ASKED_ABOUT:
                    return f"is not an allowed host, and {ASKED_ABOUT} hosts of this command were asked about already"
                self._answers[to] = await to_thread.run_sync(self._answer, to, abandon_on_cancel=True)
            return self._answers[to]

    def _answer(self, to: Destination) -> str:
        """In a worker thread."""
        assert self._ask is not None
        try:
            return self._ask(HostPort(host=to.host, port=to.port))
        except (RuntimeError, CancelledError):  # the call is over, and with it whoever could have asked
            return ENDED
