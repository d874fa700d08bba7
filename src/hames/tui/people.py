"""Who wrote or did something, shown only where it was not the user of this terminal."""

import os
import pwd
from functools import cache

from hames.domain.actors import Actor
from hames.domain.display import visible


def somebody_else(actor: object) -> str:
    """Who it was, in words; nothing for the user here, and where the log does not say."""
    if not isinstance(actor, Actor) or _is_here(actor):
        return ""
    return visible(str(actor))


def _is_here(actor: Actor) -> bool:
    return actor.kind == "user" and actor.via in ("terminal", "run") and actor.name == _account()


@cache
def _account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
