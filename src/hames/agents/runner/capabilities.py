"""What a runner announces that it can do. A runner of the specification announces nothing, and still runs prompts.

It may be anybody's runner, so nothing is taken on trust: what has the wrong type counts as not announced.
"""

from collections.abc import Mapping

import msgspec

from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.options import Selector
from hames.domain.value import Value

MODELS = 1000
NEEDS = {
    "model": "cannot be told which model to use",
    "sandbox": "cannot be told the sandbox policy of a thread: only workspaceWrite and externalSandbox can be used",
    "approvalPolicy": "never asks for an approval, so a thread with the policy 'always' cannot use it",
    "agent": "has no plan mode and no review mode",
    "options": "has no options of its models",
    "instructions": "does not accept instructions",
    "images": "does not accept images",
    "history": "cannot be told what was said before: start a new thread",
    "cwd": "runs in one directory only",
    "mcpServers": "cannot use MCP servers that a client brings",
    "review": "cannot do reviews: ask for one in a prompt",
    "compact": "cannot compact its conversation: it keeps its own history",
}
"""What a run may need beyond the specification, and what is said of a runner that cannot do it."""


class AnnouncedModel(Value, rename="camel"):
    id: str
    name: str = ""
    description: str = ""
    context_window: int = 200_000
    images: bool = False
    reasoning: bool = False


class Announcement(Value, rename="camel"):
    """The answer to `GET /capabilities`."""

    can: frozenset[str] = frozenset()
    models: tuple[AnnouncedModel, ...] = ()
    selectors: tuple[Selector, ...] = ()
    approval_policy: str | None = None
    """Set: the runner's own policy, which no request changes."""

    def require(self, needs: Mapping[str, object]) -> None:
        """Raises `ProviderError` for the first thing that this runner cannot do."""
        for need in needs:
            if need not in self.can:
                raise ProviderError(f"the runner {NEEDS[need]}", info="BadRequest")


NOTHING_ANNOUNCED = Announcement()


def read_announcement(body: bytes) -> Announcement:
    """Member by member: one that has the wrong type is missing, and the rest still counts."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NOTHING_ANNOUNCED
    if not isinstance(said, dict):
        return NOTHING_ANNOUNCED
    good: dict[str, Json] = {}
    for field in msgspec.structs.fields(Announcement):
        if field.encode_name in said:
            try:
                good[field.name] = msgspec.convert(said[field.encode_name], field.type)
            except msgspec.ValidationError:
                continue
    announced = Announcement(**good)
    return msgspec.structs.replace(announced, models=announced.models[:MODELS])
