"""Commands that were found in a piece of shell, as far as their words are known before it runs."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ScriptWord:
    """A word as the program would get it. A part that is None is known only when the shell runs."""

    parts: tuple[str | None, ...] = ()
    many: bool = False
    """It may become several words, or none."""

    @property
    def text(self) -> str | None:
        """None if a part of it is unknown."""
        known = [part for part in self.parts if part is not None]
        return "".join(known) if len(known) == len(self.parts) else None

    @property
    def shown(self) -> str:
        return "".join("…" if part is None else part for part in self.parts)


ANYTHING = ScriptWord(parts=(None,), many=True)


@dataclass(slots=True)
class ScriptCommand:
    """One program with its words. `inputs` are heredocs for it; None is one that is unknown."""

    words: tuple[ScriptWord, ...]
    assignments: tuple[tuple[str, ScriptWord], ...] = ()
    inputs: list[str | None] = field(default_factory=list[str | None])
    piped: bool = False
    """Another command's output is its input."""
    redirects: list[tuple[str, ScriptWord]] = field(default_factory=list[tuple[str, ScriptWord]])

    @property
    def shown(self) -> str:
        return " ".join(word.shown for word in self.words)


@dataclass(slots=True)
class FoundCommands:
    commands: list[ScriptCommand] = field(default_factory=list[ScriptCommand])
    doubts: list[str] = field(default_factory=list[str])
    """What could not be read."""
