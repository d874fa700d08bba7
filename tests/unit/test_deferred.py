"""Things that are built when they are first used."""

import threading

import msgspec

from hames.deferred import constant, deferred, is_built, pattern


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


def test_an_object_is_built_once_and_only_when_it_is_used() -> None:
    made: list[Counter] = []

    def build() -> Counter:
        made.append(Counter())
        return made[-1]

    counter = deferred(build)
    assert not is_built(counter)
    assert made == []
    assert [counter.add(), counter.add(), counter.count] == [1, 2, 2]
    counter.count = 7
    assert made[0].count == 7
    assert len(made) == 1
    assert is_built(counter)
    assert is_built(made[0])


def test_several_threads_get_the_same_object() -> None:
    started = threading.Barrier(8)
    made: list[Counter] = []

    def build() -> Counter:
        made.append(Counter())
        return made[-1]

    counter = deferred(build)

    def use() -> None:
        started.wait(60)
        counter.add()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 1


def test_a_build_that_fails_is_tried_again() -> None:
    tries: list[int] = []

    def build() -> Counter:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not now")
        return Counter()

    counter = deferred(build)
    try:
        counter.add()
    except OSError:
        assert not is_built(counter)
    assert counter.add() == 1


def test_a_pattern_is_compiled_at_its_first_match() -> None:
    name = pattern(r"[a-z]+")
    assert not is_built(name)
    assert name.fullmatch("hames")
    assert not name.fullmatch("Hames")
    assert is_built(name)
    found = pattern(rb"A(.)", 2).search(b"xab")
    assert found is not None
    assert found[1] == b"b"


def test_a_constant_looks_an_attribute_up_once() -> None:
    decoder = constant(lambda: msgspec.json.Decoder(int))
    assert decoder.decode(b"7") == 7
    assert "decode" in vars(decoder)
