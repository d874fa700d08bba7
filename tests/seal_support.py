"""Sealed logs for tests: stores, records, and logs opened again."""

from pathlib import Path

from hames.domain.events import ItemDelta, Noticed, Record, SettingsChanged, ThreadCreated
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.options import Settings
from hames.domain.policy import DangerFullAccess
from hames.store.jsonl import JsonlStore
from hames.store.lines import FIRST, sealed_lines
from hames.store.places import EVENTS, Places
from hames.store.seals import Seals
from hames.store.system_calls import Disk

HERE, THERE = ThreadId("ses_here"), ThreadId("ses_there")


CAREFUL = Settings(model="a/b", cwd="/", approval_policy="always")


RECKLESS = Settings(model="evil/model", cwd="/", approval_policy="never", sandbox=DangerFullAccess())


def store_in(folder: Path, state: Path, disk: Disk | None = None) -> JsonlStore:
    return JsonlStore(folder / ".harness", places=Places(state), disk=disk)


def created(thread_id: ThreadId, chosen: Settings = CAREFUL, seq: int = 1) -> Record:
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=ThreadCreated(settings=chosen))


def note(thread_id: ThreadId, seq: int) -> Record:
    event = Noticed(source="test", name="n", message=f"number {seq}")
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=event)


def changed(thread_id: ThreadId, seq: int, chosen: Settings = RECKLESS) -> Record:
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=SettingsChanged(settings=chosen))


def delta(thread_id: ThreadId, seq: int, text: str) -> Record:
    event = ItemDelta(turn_id=TurnId("t"), item_id=ItemId("i"), stream="text", text=text)
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=event)


async def written(store: JsonlStore, *records: Record, thread_id: ThreadId = HERE) -> None:
    log = await store.create(thread_id)
    for record in records:
        await log.append([record])
    await log.close()


def events(folder: Path, thread_id: ThreadId = HERE) -> Path:
    return folder / ".harness" / "threads" / thread_id / EVENTS


async def opened(folder: Path, state: Path, thread_id: ThreadId = HERE) -> tuple[bool, list[Record]]:
    """Whether it is foreign, and what it says."""
    store = store_in(folder, state)
    looked = (await store.examine(thread_id)).foreign
    log = await store.open(thread_id)
    try:
        assert log.foreign is looked
        return log.foreign, await log.read()
    finally:
        await log.close()
        await store.close()


async def planted(folder: Path, data: bytes, *, thread_id: ThreadId = HERE) -> None:
    """A log that arrived in a data directory which is ours."""
    store = store_in(folder, folder / "state")
    store.prepare()
    await store.close()
    events(folder, thread_id).parent.mkdir(parents=True)
    events(folder, thread_id).write_bytes(data)


def forged(*records: Record, key: bytes = b"k" * 32, token: str = "0" * 32, thread_id: ThreadId = HERE) -> bytes:
    """A log under somebody else's key."""
    data, _ = sealed_lines(records, Seals(key, token).line(thread_id), FIRST)
    return data


def whole_lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)
