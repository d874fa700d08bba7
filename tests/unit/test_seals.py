"""Whose log it is: a log that we sealed, whole and where we sealed it, is ours; every other one is foreign."""

import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.domain.authority import withdrawn
from hames.domain.errors import StorageFailed, ThreadReadOnly
from hames.domain.events import ItemDelta, Noticed, Record, SettingsChanged, ThreadCreated
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.options import Settings
from hames.domain.policy import DangerFullAccess
from hames.store.jsonl import JsonlStore
from hames.store.lines import FIRST, line, seal_of, sealed_lines
from hames.store.places import EVENTS, LIVE, META, Places
from hames.store.seals import KEY_FILE, Seals, user_key
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


RECORDS = [created(HERE), *(note(HERE, n) for n in range(2, 7)), changed(HERE, 7, CAREFUL)]


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


async def test_a_log_of_ours_stays_ours_however_often_it_is_continued(tmp_path: Path) -> None:
    store = store_in(tmp_path, tmp_path / "state")
    await written(store, *RECORDS[:3])
    for record in RECORDS[3:]:
        log = await store.open(HERE)
        assert not log.foreign
        await log.append([record])
        await log.close()
    await store.close()
    assert await opened(tmp_path, tmp_path / "state") == (False, RECORDS)


async def test_a_foreign_log_stays_foreign_however_often_it_is_continued(tmp_path: Path) -> None:
    await planted(tmp_path, line(created(HERE, RECKLESS)))
    for number in range(2, 8, 2):
        store = store_in(tmp_path, tmp_path / "state")
        log = await store.open(HERE)
        assert log.foreign
        await log.append([note(HERE, number)])
        log.jot(delta(HERE, number + 1, "told"))
        await log.append([delta(HERE, number + 1, "told")])
        await log.close()
        await store.close()
    foreign, records = await opened(tmp_path, tmp_path / "state")
    assert foreign
    assert len(records) == 7


async def planted(folder: Path, data: bytes, *, thread_id: ThreadId = HERE) -> None:
    """A log that arrived in a data directory which is ours."""
    store = store_in(folder, folder / "state")
    store.prepare()
    await store.close()
    events(folder, thread_id).parent.mkdir(parents=True)
    events(folder, thread_id).write_bytes(data)


def with_seal(data: bytes, seal: bytes) -> bytes:
    """A line with that seal, and a checksum that fits."""
    body = data[:-19] + b',"seal":"' + seal + b'"'
    return body + b',"crc":"%08x"}\n' % crc32(body)


def forged(*records: Record, key: bytes = b"k" * 32, token: str = "0" * 32, thread_id: ThreadId = HERE) -> bytes:
    """A log under somebody else's key."""
    data, _ = sealed_lines(records, Seals(key, token).line(thread_id), FIRST)
    return data


@pytest.mark.parametrize(
    "data",
    [
        line(created(HERE, RECKLESS)),
        forged(created(HERE, RECKLESS)),
        line(created(HERE, RECKLESS)) + forged(note(HERE, 2)),
        with_seal(line(created(HERE, RECKLESS)), b"0" * 32),
        with_seal(line(created(HERE, RECKLESS)), b"\xff" * 32),
    ],
    ids=["without a seal", "another key", "a seal at the end only", "a seal that is none", "a seal that is no text"],
)
async def test_what_arrives_in_a_directory_of_ours_is_foreign(tmp_path: Path, data: bytes) -> None:
    await planted(tmp_path, data)
    foreign, _ = await opened(tmp_path, tmp_path / "state")
    assert foreign


async def test_the_same_log_in_another_directory_is_foreign_there(tmp_path: Path) -> None:
    """Copied with everything beside it, as a clone of a repository that has committed it would be."""
    state = tmp_path / "state"
    for folder in ("one", "two"):
        store = store_in(tmp_path / folder, state) if (tmp_path / folder).mkdir() is None else None
        assert store is not None
        await written(store, *RECORDS)
        await store.close()
    shutil.copytree(tmp_path / "one" / ".harness", tmp_path / "copy" / ".harness")
    assert await opened(tmp_path / "copy", state) == (True, RECORDS)
    shutil.copy(events(tmp_path / "one"), events(tmp_path / "two"))
    assert await opened(tmp_path / "two", state) == (True, RECORDS), "another directory of ours"
    assert (await opened(tmp_path / "one", state))[0] is False


async def test_the_same_log_under_another_threads_name_is_foreign(tmp_path: Path) -> None:
    store = store_in(tmp_path, tmp_path / "state")
    await written(store, *RECORDS)
    await store.close()
    shutil.copytree(events(tmp_path).parent, events(tmp_path, THERE).parent)
    assert await opened(tmp_path, tmp_path / "state", THERE) == (True, RECORDS)


async def test_a_directory_that_was_moved_is_still_ours(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    store = store_in(tmp_path / "one", tmp_path / "state")
    await written(store, *RECORDS)
    await store.close()
    (tmp_path / "one").rename(tmp_path / "two")
    assert await opened(tmp_path / "two", tmp_path / "state") == (False, RECORDS)


async def test_another_user_of_the_same_directory_takes_nothing_away(tmp_path: Path) -> None:
    """A workspace that is shared with a container, or with root: each has a state directory of its own."""
    for state in ("mine", "theirs", "mine", "theirs"):
        store = store_in(tmp_path, tmp_path / state)
        name = ThreadId(f"ses_{state}")
        if not events(tmp_path, name).exists():
            await written(store, created(name), thread_id=name)
        await store.close()
    for state, other in (("mine", "theirs"), ("theirs", "mine")):
        assert (await opened(tmp_path, tmp_path / state, ThreadId(f"ses_{state}")))[0] is False
        assert (await opened(tmp_path, tmp_path / state, ThreadId(f"ses_{other}")))[0] is True


# -- any change


def whole_lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def edited(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    data = bytearray(b"".join(lines))
    data[draw(0, len(data) - 1)] ^= 1 << draw(0, 7)
    return bytes(data)


def reworded(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    """Another content with a checksum that fits: the seal is left as it was."""
    at = draw(0, len(lines) - 1)
    evil = line(changed(HERE, at + 1))
    return b"".join([*lines[:at], with_seal(evil, seal_of(lines[at][:-1])), *lines[at + 1 :]])


def inserted(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    at = draw(0, len(lines))
    return b"".join([*lines[:at], line(changed(HERE, at + 1)), *lines[at:]])


def forged_insert(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    at = draw(0, len(lines))
    return b"".join([*lines[:at], forged(changed(HERE, at + 1)), *lines[at:]])


def left_out(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    at = draw(0, len(lines) - 1)
    return b"".join([*lines[:at], *lines[at + 1 :]])


def doubled(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    at, to = draw(0, len(lines) - 1), draw(0, len(lines))
    return b"".join([*lines[:to], lines[at], *lines[to:]])


def swapped(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    one, other = draw(0, len(lines) - 1), draw(0, len(lines) - 1)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def cut(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    data = b"".join(lines)
    return data[: draw(0, len(data))]


def beheaded(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    return b"".join(lines[draw(1, len(lines)) :])


CHANGES = [edited, reworded, inserted, forged_insert, left_out, doubled, swapped, cut, beheaded]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_log_that_was_changed_in_any_way_is_foreign_or_says_less_than_it_did(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    async def check() -> None:
        folder = tmp_path_factory.mktemp("changed")
        store = store_in(folder, folder / "state")
        await written(store, *RECORDS)
        await store.close()
        before = events(folder).read_bytes()
        now = before
        for change in data.draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3)):
            lines = whole_lines(now)
            if not lines:
                break
            now = change(lines, lambda least, most: data.draw(st.integers(least, most)))
        events(folder).write_bytes(now)
        try:
            foreign, records = await opened(folder, folder / "state")
        except ThreadReadOnly:  # a whole line with words that nobody knows
            foreign, records = True, []
        if not foreign:
            said = [record for record in records if record in RECORDS]
            assert said == sorted(said, key=lambda record: record.seq)
            for other in (record.event for record in records if record not in RECORDS):
                assert isinstance(other, SettingsChanged), "something is obeyed that we have not written"
                assert other.settings == CAREFUL or other == withdrawn(CAREFUL)
        shutil.rmtree(folder)

    anyio.run(check)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_torn_log_of_ours_is_a_shorter_log_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    async def check() -> None:
        folder = tmp_path_factory.mktemp("torn")
        store = store_in(folder, folder / "state")
        await written(store, *RECORDS)
        whole = events(folder).read_bytes()
        torn = whole[: data.draw(st.integers(0, len(whole)))]
        events(folder).write_bytes(torn)
        log = await store.open(HERE)
        assert not log.foreign
        assert await log.read() == RECORDS[: torn.count(b"\n")]
        await log.append([note(HERE, torn.count(b"\n") + 1)])
        await log.close()
        await store.close()
        assert (await opened(folder, folder / "state"))[0] is False
        shutil.rmtree(folder)

    anyio.run(check)


async def test_a_line_that_was_cut_off_and_put_aside_cannot_be_put_back(tmp_path: Path) -> None:
    """It was sealed by us, under the number that another record has now."""
    state = tmp_path / "state"
    store = store_in(tmp_path, state)
    await written(store, created(HERE), changed(HERE, 2, RECKLESS))
    first, reckless = whole_lines(events(tmp_path).read_bytes())
    events(tmp_path).write_bytes(first)  # a power cut has taken it
    log = await store.open(HERE)
    await log.append([changed(HERE, 2, CAREFUL), note(HERE, 3)])
    await log.close()
    await store.close()
    _, _, third = whole_lines(events(tmp_path).read_bytes())
    events(tmp_path).write_bytes(first + reckless + third)
    foreign, records = await opened(tmp_path, state)
    assert not foreign, "we wrote every line of it"
    assert records[2].event == withdrawn(RECKLESS), "but not in this order: nothing of it holds any more"
    assert isinstance(records[-1].event, SettingsChanged)
    assert records[-1].event.settings.approval_policy == "always"


class HalfDisk(Disk):
    """Has room for a part, and then no more, once it is told so."""

    fails = 0

    def write(self, fd: int, data: bytes) -> int:
        self.fails -= 1
        if self.fails == 1:
            return super().write(fd, data[: len(data) // 2])
        if self.fails == 0:
            raise OSError(28, "No space left on device")
        return super().write(fd, data)


async def test_a_write_that_failed_halfway_breaks_no_seal(tmp_path: Path) -> None:
    disk = HalfDisk()
    store = store_in(tmp_path, tmp_path / "state", disk)
    log = await store.create(HERE)
    await log.append(RECORDS[:2])
    disk.fails = 2
    with pytest.raises(StorageFailed):
        await log.append(RECORDS[2:4])
    await log.append(RECORDS[2:])
    await log.close()
    await store.close()
    assert await opened(tmp_path, tmp_path / "state") == (False, RECORDS)


# -- the live file


async def jotted(folder: Path, *texts: str) -> Path:
    store = store_in(folder, folder / "state")
    log = await store.create(HERE)
    await log.append([created(HERE)])
    for text in texts:
        log.jot(delta(HERE, 2, text))
    await log.close()
    await store.close()
    return events(folder).parent / LIVE


async def test_what_is_planted_in_the_live_file_is_not_taken_in(tmp_path: Path) -> None:
    live = await jotted(tmp_path)
    for planted_lines in (
        line(changed(HERE, 2)),
        line(changed(HERE, 2)) * 3,
        forged(changed(HERE, 2)),
        line(changed(HERE, 2))[:-18] + b',"seal":"' + b"0" * 32 + b'"}\n',
        b"garbage\n\0\xff",
    ):
        live.write_bytes(planted_lines)
        store = store_in(tmp_path, tmp_path / "state")
        assert await store.read(HERE) == [created(HERE)]
        await store.close()
        assert await opened(tmp_path, tmp_path / "state") == (False, [created(HERE)])
        assert not live.exists()


async def test_what_was_jotted_is_taken_in_up_to_where_the_file_was_changed(tmp_path: Path) -> None:
    live = await jotted(tmp_path, "one ", "two ", "three ", "four")
    first, second, third, fourth = whole_lines(live.read_bytes())
    for changed_lines, left in (
        (first + second + third + fourth, "one two three four"),
        (first + second + third + fourth[:-7], "one two three "),
        (first + third + second + fourth, "one two "),
        (first + second.replace(b"two", b"TWO") + third, "one "),
        (b"junk\n" + first + line(changed(HERE, 2)) + second, "one two "),
        (second, ""),
    ):
        live.write_bytes(changed_lines)
        store = store_in(tmp_path, tmp_path / "state")
        wanted = [created(HERE), *([delta(HERE, 2, left)] if left else [])]
        assert await store.read(HERE) == wanted
        await store.close()


async def test_a_live_file_of_an_earlier_time_does_not_count_again(tmp_path: Path) -> None:
    live = await jotted(tmp_path, "one ", "two ")
    earlier = live.read_bytes()
    store = store_in(tmp_path, tmp_path / "state")
    log = await store.open(HERE)
    await log.append([note(HERE, 3)])
    await log.close()
    live.write_bytes(earlier.replace(b'"seq":2', b'"seq":4'))
    assert len(await store.read(HERE)) == 3
    live.write_bytes(earlier)
    assert len(await store.read(HERE)) == 3
    await store.close()


async def test_a_live_file_beside_a_foreign_log_is_read_and_does_not_make_it_ours(tmp_path: Path) -> None:
    await planted(tmp_path, line(created(HERE, RECKLESS)))
    (events(tmp_path).parent / LIVE).write_bytes(line(delta(HERE, 2, "said")))
    foreign, records = await opened(tmp_path, tmp_path / "state")
    assert foreign
    assert records == [created(HERE, RECKLESS), delta(HERE, 2, "said")]


# -- directories


async def test_a_directory_that_came_with_a_clone_is_used_and_nothing_in_it_becomes_ours(tmp_path: Path) -> None:
    threads = tmp_path / ".harness" / "threads" / HERE
    threads.mkdir(parents=True)
    (threads / EVENTS).write_bytes(line(created(HERE, RECKLESS)))
    (tmp_path / ".harness" / "owner").write_text("0" * 32)
    state = tmp_path / "state"
    assert (await opened(tmp_path, state))[0] is True
    store = store_in(tmp_path, state)
    await written(store, created(THERE), thread_id=THERE)
    await store.close()
    assert (await opened(tmp_path, state, THERE))[0] is False
    assert (await opened(tmp_path, state))[0] is True
    assert (tmp_path / ".harness" / "owner").read_text() == "0" * 32, "it is not ours to change"


@pytest.mark.parametrize("kind", ["link", "directory", "fifo", "garbage", "token of another directory"])
async def test_what_stands_in_place_of_the_owner_file_is_replaced_or_does_no_harm(tmp_path: Path, kind: str) -> None:
    state, victim = tmp_path / "state", tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "first").mkdir()
    store = store_in(tmp_path / "first", state)
    await written(store, created(HERE))
    await store.close()
    name = next(path.name for path in (tmp_path / "first" / ".harness").iterdir() if path.name.startswith("owner-"))
    owner = tmp_path / "second" / ".harness" / name
    owner.parent.mkdir(parents=True)
    match kind:
        case "link":
            owner.symlink_to(victim)
        case "directory":
            owner.mkdir()
        case "fifo":
            os.mkfifo(owner)
        case "garbage":
            owner.write_bytes(b"\xff" * 100)
        case _:
            shutil.copy(tmp_path / "first" / ".harness" / name, owner)
    with anyio.fail_after(60):
        store = store_in(tmp_path / "second", state)
        await written(store, created(THERE), thread_id=THERE)
        log_is_foreign = (await store.examine(THERE)).foreign
        await store.close()
    assert victim.read_text() == "mine"
    assert not log_is_foreign
    if kind != "directory":  # nothing can be renamed over one: the claim lasts as long as the process
        assert (await opened(tmp_path / "second", state, THERE))[0] is False


@pytest.mark.parametrize(
    "how", ["none", "unwritable", "a file", "no key", "a key of another size", "a key that is a link"]
)
async def test_without_a_place_for_the_key_threads_work_and_are_foreign_afterwards(tmp_path: Path, how: str) -> None:
    state: Path | None = tmp_path / "state"
    match how:
        case "none":
            state = None
        case "unwritable":
            state = Path("/proc/hames-state")
        case "a file":
            (tmp_path / "state").write_text("")
        case "no key":
            (tmp_path / "state").mkdir()
            (tmp_path / "state" / KEY_FILE).write_text("zz" * 32)
        case "a key of another size":
            (tmp_path / "state").mkdir()
            (tmp_path / "state" / KEY_FILE).write_text("ab" * 8)
        case _:
            (tmp_path / "state").mkdir()
            (tmp_path / "other").write_text("ab" * 32)
            (tmp_path / "state" / KEY_FILE).symlink_to(tmp_path / "other")
    store = JsonlStore(tmp_path / ".harness", places=Places(state))
    log = await store.create(HERE)
    assert not log.foreign
    await log.append([created(HERE)])
    await log.close()
    again = await store.open(HERE)
    assert not again.foreign, "the same process knows what it wrote"
    await again.close()
    await store.close()
    later = JsonlStore(tmp_path / ".harness", places=Places(state))
    assert (await later.examine(HERE)).foreign
    await later.close()


def test_the_key_is_made_once_and_for_this_user_alone(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    code = (
        "import sys; from pathlib import Path; from hames.store.seals import user_key\n"
        "sys.stdin.readline(); print(user_key(Path(sys.argv[1])).hex())"
    )
    many = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    keys = set()
    for one in many:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in many:
        said, _ = one.communicate(timeout=60)
        keys.add(said.strip())
    assert len(keys) == 1
    key = user_key(state)
    assert key is not None
    assert keys == {key.hex()}
    assert stat.S_IMODE((state / KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert [path.name for path in state.iterdir()] == [KEY_FILE], "nothing is left over"


def test_a_key_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    key = user_key(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    assert user_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


async def test_two_processes_that_claim_a_directory_at_once_share_it(tmp_path: Path) -> None:
    (tmp_path / ".harness" / "threads").mkdir(parents=True)
    code = """
import sys, anyio
from pathlib import Path
from hames.domain.events import Record, ThreadCreated
from hames.domain.options import Settings
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
async def main(folder, name):
    store = JsonlStore(Path(folder, ".harness"), places=Places(Path(folder, "state")))
    sys.stdin.readline()
    log = await store.create(name)
    event = ThreadCreated(settings=Settings(model="a/b", cwd="/"))
    await log.append([Record(seq=1, at_ms=1, thread_id=name, event=event)])
    await log.close()
anyio.run(main, *sys.argv[1:])
"""
    many = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"ses_{number}"], stdin=subprocess.PIPE, text=True)
        for number in range(5)
    ]
    for one in many:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in many:
        one.communicate(timeout=60)
        assert one.returncode == 0
    for number in range(5):
        assert (await opened(tmp_path, tmp_path / "state", ThreadId(f"ses_{number}")))[0] is False


# -- the list


async def listed(folder: Path, state: Path) -> dict[str, bool]:
    store = store_in(folder, state)
    page = await store.page(limit=None, cursor=None, archived=False, search="")
    await store.close()
    return {thread.id: thread.foreign for thread in page.threads}


async def test_a_list_says_which_threads_are_foreign_without_opening_a_log(tmp_path: Path) -> None:
    from hames.domain.state import apply, blank, summary

    state = tmp_path / "state"
    store = store_in(tmp_path, state)
    log = await store.create(HERE)
    await log.append([created(HERE)])
    await log.summarize(summary(apply(blank(HERE), created(HERE))))
    await log.close()
    await store.close()
    shutil.copytree(events(tmp_path).parent, events(tmp_path, THERE).parent)
    own = json.loads((events(tmp_path).parent / META).read_text())
    (events(tmp_path, THERE).parent / META).write_text(json.dumps({**own, "id": THERE, "foreign": False}))
    assert await listed(tmp_path, state) == {HERE: False, THERE: True}
    shutil.rmtree(state / "workspaces")  # the list can be thrown away at any time
    assert await listed(tmp_path, state) == {HERE: False, THERE: True}
    for name in (HERE, THERE):
        (events(tmp_path, name).parent / META).unlink()
    shutil.rmtree(state / "workspaces")
    assert await listed(tmp_path, state) == {HERE: False, THERE: True}


async def test_the_index_is_not_kept_where_a_repository_could_bring_one(tmp_path: Path) -> None:
    store = store_in(tmp_path, tmp_path / "state")
    await written(store, created(HERE))
    await store.page(limit=None, cursor=None, archived=False, search="")
    await store.close()
    assert [path.name for path in (tmp_path / ".harness").rglob("*.db*")] == []
    assert list((tmp_path / "state").rglob("index.db"))


@pytest.mark.parametrize("number", [10**30, -(10**30), 2**63, -1])
async def test_a_planted_summary_with_an_impossible_time_does_not_break_the_list(tmp_path: Path, number: int) -> None:
    await planted(tmp_path, line(created(HERE)))
    meta = {
        "id": HERE,
        "title": "t",
        "preview": "",
        "cwd": "/",
        "model": "a/b",
        "created_at_ms": number,
        "updated_at_ms": number,
    }
    (events(tmp_path).parent / META).write_text(json.dumps(meta))
    late = Record(seq=1, at_ms=number, thread_id=THERE, event=ThreadCreated(settings=CAREFUL))
    events(tmp_path, THERE).parent.mkdir()
    events(tmp_path, THERE).write_bytes(line(late))
    assert await listed(tmp_path, tmp_path / "state") == {HERE: True, THERE: True}


# -- logs of an older version


def old_directory(folder: Path, state: Path, *threads: ThreadId) -> str:
    """A data directory as the version before seals left it: logs with checksums, and a token that we know."""
    for thread_id in threads:
        events(folder, thread_id).parent.mkdir(parents=True)
        old = created(thread_id)
        events(folder, thread_id).write_bytes(line(old) + line(note(thread_id, 2)))
    token = secrets.token_hex(16)
    about = (folder / ".harness").stat()
    (state / "places").mkdir(parents=True, exist_ok=True)
    (state / "places" / token).write_text(f"{about.st_dev}:{about.st_ino}")
    (folder / ".harness" / "owner").write_text(token)
    return token


async def test_logs_of_an_older_version_are_adopted_once_and_nothing_that_comes_later(tmp_path: Path) -> None:
    state = tmp_path / "state"
    old_directory(tmp_path, state, HERE, THERE)
    store = store_in(tmp_path, state)
    await store.page(limit=None, cursor=None, archived=False, search="")  # the first use, whatever it is
    await store.close()
    late = ThreadId("ses_late")
    events(tmp_path, late).parent.mkdir()
    events(tmp_path, late).write_bytes(line(created(late, RECKLESS)))
    events(tmp_path, THERE).write_bytes(line(created(THERE, RECKLESS)))
    assert await opened(tmp_path, state) == (False, [created(HERE), note(HERE, 2)])
    assert (await opened(tmp_path, state, late))[0] is True
    assert (await opened(tmp_path, state, THERE))[0] is True, "it was adopted as it was"
    assert await listed(tmp_path, state) == {HERE: False, THERE: False, late: True}


async def test_an_adopted_log_is_continued_under_seals(tmp_path: Path) -> None:
    state = tmp_path / "state"
    old_directory(tmp_path, state, HERE)
    store = store_in(tmp_path, state)
    log = await store.open(HERE)
    await log.append([note(HERE, 3)])
    await log.close()
    await store.close()
    assert await opened(tmp_path, state) == (False, [created(HERE), note(HERE, 2), note(HERE, 3)])
    before = whole_lines(events(tmp_path).read_bytes())
    events(tmp_path).write_bytes(line(created(HERE, RECKLESS)) + b"".join(before[1:]))
    assert (await opened(tmp_path, state))[0] is True
    events(tmp_path).write_bytes(b"".join(before) + line(changed(HERE, 4)))
    assert (await opened(tmp_path, state))[0] is True, "an older version went on with it, or somebody else did"


async def test_adoption_that_was_killed_happens_again_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    token = old_directory(tmp_path, state, HERE, THERE)
    killed = OSError("killed")

    def dies(path: Path, data: bytes, *, sync: bool = False) -> None:
        raise killed

    monkeypatch.setattr("hames.store.places.write_private", dies)
    store = store_in(tmp_path, state)
    assert (await store.examine(HERE)).foreign
    await store.close()
    monkeypatch.undo()
    assert not (state / "places" / f"{token}.adopted").exists()
    for thread_id in (HERE, THERE):
        assert (await opened(tmp_path, state, thread_id))[0] is False


async def test_a_torn_tail_and_live_deltas_of_an_older_version_are_mended_as_before(tmp_path: Path) -> None:
    state = tmp_path / "state"
    old_directory(tmp_path, state, HERE, THERE)
    for thread_id in (HERE, THERE):
        with events(tmp_path, thread_id).open("ab") as file:
            file.write(line(note(thread_id, 3))[:-9])
        (events(tmp_path, thread_id).parent / LIVE).write_bytes(line(delta(thread_id, 3, "told")))
    store = store_in(tmp_path, state)
    await store.page(limit=None, cursor=None, archived=False, search="")
    await store.close()
    (events(tmp_path, THERE).parent / LIVE).write_bytes(line(changed(THERE, 3)))
    assert await opened(tmp_path, state) == (False, [created(HERE), note(HERE, 2), delta(HERE, 3, "told")])
    assert await opened(tmp_path, state) == (False, [created(HERE), note(HERE, 2), delta(HERE, 3, "told")])
    assert await opened(tmp_path, state, THERE) == (False, [created(THERE), note(THERE, 2)])


async def test_an_old_directory_whose_token_we_do_not_know_is_not_adopted(tmp_path: Path) -> None:
    old_directory(tmp_path, tmp_path / "somebody", HERE)
    assert (await opened(tmp_path, tmp_path / "state"))[0] is True
    shutil.copytree(tmp_path / ".harness", tmp_path / "copy" / ".harness")
    assert (await opened(tmp_path / "copy", tmp_path / "somebody"))[0] is True


def test_an_older_version_can_read_a_sealed_line() -> None:
    """It takes the checksum for the last member and everything before it for the body, and does not know `seal`."""
    data = forged(created(HERE))[:-1]
    body, end = data[:-18], data[-18:]
    assert end == b',"crc":"%08x"}' % crc32(body)
    assert json.loads(data)["event"]["format"] == 3, "and refuses to go on with it"
