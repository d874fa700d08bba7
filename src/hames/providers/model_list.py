"""A service's own list of models, read and remembered. Pure but for one small file.

Every list has names. Some have context windows, prices and abilities, too, each under names of its own;
what a list does not say stays unknown.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hames.codecs.jsontext import count_member, text_member
from hames.domain.json import Json
from hames.domain.models import ModelCard, Price
from hames.domain.value import Value
from hames.private_files import write_private

MODELS = 2000
"""More than any service has."""
NAME_CHARS = 200
WINDOWS = ("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens")
OUTPUTS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""What services call the same thing."""


class ListedModel(Value):
    """A model as its service lists it. 0, empty and None: it did not say."""

    id: str
    name: str = ""
    window: int = 0
    output: int = 0
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    price: Price | None = None
    successor: str = ""


class RememberedList(Value):
    """What a service listed, and whose it was: another address has another list."""

    url: str
    at_ms: int
    models: tuple[ListedModel, ...]


def read_list(body: bytes) -> tuple[ListedModel, ...]:
    """Raises `ValueError` for what is no list."""
    listing = msgspec.json.decode(body)
    rows = (listing.get("data") or listing.get("models")) if isinstance(listing, dict) else listing
    if not isinstance(rows, list):
        raise ValueError("no list of models")  # noqa: TRY004
    listed = {one.id: one for row in rows[:MODELS] if (one := _read_row(row)) is not None}
    return tuple(listed.values())


def _read_row(row: Json) -> ListedModel | None:
    name = text_member(row, "id") or text_member(row, "name")
    if not isinstance(row, dict) or not name or len(name) > NAME_CHARS or not name.isprintable() or " " in name:
        return None
    can, does = row.get("capabilities"), row.get("supported_parameters")
    built = row.get("architecture")
    shows = built.get("input_modalities") if isinstance(built, dict) else None
    parameters = does if isinstance(does, list) else None
    return ListedModel(
        id=name,
        name=text_member(row, "display_name") or text_member(row, "name"),
        window=_first(row, *WINDOWS) or _first(row.get("meta"), "n_ctx", "n_ctx_train"),
        output=_first(row, *OUTPUTS) or _first(row.get("top_provider"), *OUTPUTS),
        tools=_flag(can, "function_calling") if parameters is None else "tools" in parameters,
        images=_flag(can, "vision") if not isinstance(shows, list) else "image" in shows,
        reasoning=None if parameters is None else "reasoning" in parameters,
        price=_price(row.get("pricing")),
        successor=text_member(row, "deprecation_replacement_model"),
    )


def _first(row: Json, *names: str) -> int:
    return next((count for name in names if (count := count_member(row, name))), 0)


def _flag(row: Json, name: str) -> bool | None:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, bool) else None


def _price(row: Json) -> Price | None:
    """Dollars per token, as text."""
    if not isinstance(row, dict):
        return None
    try:
        dollars = [float(row[name]) * 1e6 for name in ("prompt", "completion")]
        dollars += [float(row.get(name) or 0) * 1e6 for name in ("input_cache_read", "input_cache_write")]
    except (KeyError, TypeError, ValueError):
        return None
    if min(dollars) < 0:
        return None
    asked, answered, read, written = dollars
    return Price(input=asked, output=answered, cache_read=read or asked, cache_write=written or asked)


def with_listed_facts(card: ModelCard, listed: ListedModel) -> ModelCard:
    """The card with what the list says about it."""
    window = listed.window or card.context_window
    output = min(listed.output or card.max_output, window)
    if listed.window and not listed.output:
        output = min(card.max_output, max(1024, window // 4))
    return replace(
        card,
        display_name=listed.name or card.display_name,
        context_window=window,
        max_output=output,
        tools=card.tools if listed.tools is None else listed.tools,
        images=card.images if listed.images is None else listed.images,
        reasoning=card.reasoning if listed.reasoning is None else listed.reasoning,
        price=listed.price or card.price,
        successor=listed.successor or card.successor,
    )


def remember_list(directory: Path, name: str, what: RememberedList) -> None:
    """A list that cannot be kept is asked for again; nothing else is lost."""
    with suppress(OSError):
        write_private(_path(directory, name), msgspec.json.encode(what))


def recall_list(directory: Path, name: str, url: str) -> Sequence[ListedModel]:
    """What was remembered of that service at that address; nothing, if it was somewhere else or is unreadable."""
    try:
        kept = msgspec.json.decode(_path(directory, name).read_bytes(), type=RememberedList)
    except (OSError, ValueError):
        return ()
    return kept.models if kept.url == url else ()


def _path(directory: Path, name: str) -> Path:
    return directory / f"models-{name}.json"
