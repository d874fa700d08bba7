"""The open bundle of deltas, as a follower has heard it so far and as it is now."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from hames.domain.events import ItemDelta, Record
from hames.store.lines import same_stream


def begins_with(told: Record, bundle: Record) -> bool:
    before, now = told.event, bundle.event
    if not isinstance(before, ItemDelta) or not isinstance(now, ItemDelta) or told.seq != bundle.seq:
        return False
    return same_stream(told, bundle) and now.text.startswith(before.text)


def text_after(pieces: Iterable[Record], told: Record | None) -> Iterator[Record]:
    """The pieces of a bundle without the text that was told."""
    skip = len(told.event.text) if told is not None and isinstance(told.event, ItemDelta) else 0
    for piece in pieces:
        event = piece.event
        if isinstance(event, ItemDelta) and skip < len(event.text):
            yield replace(piece, event=replace(event, text=event.text[skip:]))
        skip = max(0, skip - len(event.text)) if isinstance(event, ItemDelta) else skip


def text_beyond(told: Record, bundle: Record) -> Record | None:
    """What the bundle has more than was told; None: nothing."""
    before, now = told.event, bundle.event
    assert isinstance(before, ItemDelta)
    assert isinstance(now, ItemDelta)
    text = now.text[len(before.text) :]
    return replace(bundle, event=replace(now, text=text)) if text else None
