"""Members that every protocol reads alike: how a client wants the agent to work. The names are Codex's."""

from typing import Protocol

from msgspec.structs import replace

from hames.domain.options import Overrides, Personality
from hames.domain.value import Value


class HasInstructions(Protocol):
    """A request with these members. None: as it was."""

    @property
    def developer_instructions(self) -> str | None: ...

    @property
    def base_instructions(self) -> str | None: ...

    @property
    def personality(self) -> Personality | None: ...


class Instructions(Value, rename="camel"):
    """`developerInstructions` are added to the system prompt, `baseInstructions` take the place of ours."""

    developer_instructions: str | None = None
    base_instructions: str | None = None
    personality: Personality | None = None


def with_instructions(overrides: Overrides, given: HasInstructions) -> Overrides:
    return replace(
        overrides,
        instructions=given.developer_instructions,
        base_instructions=given.base_instructions,
        personality=given.personality,
    )
