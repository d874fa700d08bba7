"""Whose directory it is: the owner file, the key, the list of threads, and logs of an older version."""

import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import anyio
import pytest

from hames.domain.events import Record, ThreadCreated
from hames.domain.ids import ThreadId
from hames.store.jsonl import JsonlStore
from hames.store.lines import line
from hames.store.places import EVENTS, LIVE, META, Places
from hames.store.seals import KEY_FILE, user_key
from seal_support import (
    CAREFUL,
    HERE,
    RECKLESS,
    THERE,
    changed,
    created,
    delta,
    events,
    forged,
    note,
    opened,
    planted,
    store_in,
    whole_lines,
    written,
)

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
