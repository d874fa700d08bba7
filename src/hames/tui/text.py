"""What items say, as plain text: shared by the screen and the command line. Not yet safe to print."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import assert_never

import msgspec

from hames.domain.json import Json
from hames.domain.models import Price
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m


def shown_input(content: list[wire.UserInput]) -> str:
    """A prompt as one text, attachments named."""
    parts: list[str] = []
    for part in content:
        match part:
            case wire.TextInput(text=text):
                parts.append(text)
            case wire.ImageInput(url=url):
                parts.append(f"[image {url[:40]}]")
            case wire.LocalImageInput(path=path):
                parts.append(f"[image {PurePath(path).name}]")
            case wire.FileInput(path=path):
                parts.append(f"[file {PurePath(path).name}]")
            case _ as never:
                assert_never(never)
    return "\n".join(parts)


def source_lines(item: wire.AgentMessageItem) -> list[str]:
    """The sources of an answer, numbered, each once.

    >>> cited = [wire.CitationMember(url="https://a.example", title="A"), wire.CitationMember(url="https://a.example")]
    >>> source_lines(wire.AgentMessageItem(id="i1", text="So.", citations=cited))
    ['[1] A: https://a.example']
    """
    found: dict[str, str] = {}
    for cited in item.citations or ():
        url, title = cited.url or "", cited.title or ""
        if name := url or title:
            found.setdefault(name, ": ".join(part for part in (title, url) if part))
    return [f"[{number}] {words}" for number, words in enumerate(found.values(), 1)]


def described_model(model: m.Model) -> str:
    """Its window, its price per million tokens in and out, and what it is good for."""
    details = model.details if isinstance(model.details, dict) else {}
    parts: list[str] = []
    if isinstance(window := details.get("contextWindow"), int):
        parts.append(f"{_rounded(window)} context")
    if isinstance(price := details.get("price"), dict):
        parts.append(f"${price.get('input', 0):g} in, ${price.get('output', 0):g} out")
    if isinstance(model.description, str) and model.description:
        parts.append(model.description)
    if isinstance(successor := details.get("successor"), str):
        parts.append(f"use {successor} instead")
    return " · ".join(parts)


def model_group(model: m.Model) -> str:
    """The heading of a model's group in a list. Retired models come last."""
    details = model.details if isinstance(model.details, dict) else {}
    if not is_usable(model):
        return NOT_SET_UP
    if model.hidden or details.get("successor"):
        return "Retired, or soon to be"
    description = model.description if isinstance(model.description, str) else ""
    return "Earlier versions" if description.startswith("Before ") else "Current"


NOT_SET_UP = "Not set up: run `hames setup`, or `hames login PROVIDER`"
MODEL_GROUPS = ("Current", "Earlier versions", "Retired, or soon to be", NOT_SET_UP)


def is_usable(model: m.Model) -> bool:
    """Whether its provider has a key, or needs none."""
    return not (isinstance(model.details, dict) and model.details.get("usable") is False)


def ago(seconds: float) -> str:
    """
    >>> ago(20), ago(300), ago(7200), ago(260_000)
    ('just now', '5 min ago', '2 h ago', '3 d ago')
    """
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 86_400 else f"{seconds / 86_400:.0f} d ago"


def _rounded(count: int) -> str:
    return f"{count / 1_000_000:g}M" if count >= 1_000_000 else f"{count / 1000:g}k"


def json_on_one_line(value: Json) -> str:
    """Arguments and results on one line."""
    if value is msgspec.UNSET or value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "  ".join(f"{name}={inner if isinstance(inner, str) else _json(inner)}" for name, inner in value.items())
    return _json(value)


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def tokens(count: int) -> str:
    """
    >>> tokens(950), tokens(12_345), tokens(2_500_000)
    ('950', '12.3k', '2.5M')
    """
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def dollars(cost: float) -> str:
    """
    >>> dollars(1.234), dollars(0.002)
    ('$1.23', '<$0.01')
    """
    return f"${cost:.2f}" if cost >= 0.01 else "<$0.01"


def listed_price(listed: Mapping[str, float] | None) -> Price | None:
    """A price as the list of models has it: dollars for a million tokens, by what they were used for."""
    if listed is None:
        return None
    usual = listed.get("input", 0.0)
    cache_read, cache_write = listed.get("cacheRead", usual), listed.get("cacheWrite", usual)
    return Price(input=usual, output=listed.get("output", 0.0), cache_read=cache_read, cache_write=cache_write)


def context_text(found: m.ThreadContext) -> str:
    """What fills the model's context, a line for each part."""
    share = round(100 * found.tokens / found.window) if found.window else 0
    head = f"About {tokens(found.tokens)} of {tokens(found.window)} tokens ({share} %) are in use"
    rows = [
        f"{tokens(part.tokens):>8}  {part.name}" + (f" ({part.count})" if part.count else "") for part in found.parts
    ]
    left = [f"No longer shown to the model: {words}" for words in found.shortened]
    left += [f"Budget: {words}" for words in found.budgets]
    return "\n".join([head, *rows, *left, f"From {tokens(found.limit)} tokens on, the oldest parts are shortened"])
