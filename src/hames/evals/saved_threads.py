"""A saved thread as a trajectory."""

import msgspec

from hames.app import catalogue, thread_store
from hames.config.load import Options
from hames.domain.ids import ThreadId
from hames.domain.state import apply, blank
from hames.evals.trajectory import trajectory


async def saved_trajectory(options: Options, thread_id: str) -> str:
    """Raises `ThreadNotFound`."""
    state = blank(ThreadId(thread_id))
    store = thread_store(options)
    try:
        for record in await store.read(state.id):
            state = apply(state, record)
    finally:
        await store.close()
    prices = {card.id: card.price for card in catalogue(options).cards()}
    return msgspec.json.format(msgspec.json.encode(trajectory(state, prices.get)), indent=2).decode()
