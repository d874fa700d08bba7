"""The tail of a long output, in the units of a browser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.protocols.sync.tails import CAP, STEP, omitted_units, tail, units


def test_a_short_output_is_shown_whole() -> None:
    assert tail("x" * CAP) == ("x" * CAP, False)


@pytest.mark.parametrize(("count", "shown"), [(CAP + 1, CAP + 1 - STEP), (CAP + STEP, CAP), (CAP + STEP + 1, STEP + 1)])
def test_a_long_output_loses_its_beginning_in_steps(count: int, shown: int) -> None:
    text, truncated = tail("".join(chr(97 + n % 26) for n in range(count)))
    assert truncated
    assert len(text) == shown
    assert text[-1] == chr(97 + (count - 1) % 26)


def test_a_character_is_never_cut_in_half() -> None:
    text, truncated = tail("a" + "😀" * (CAP // 2))
    assert truncated
    assert set(text) == {"😀"}
    assert units(text) == CAP + 1 - STEP - 1


@given(st.integers(0, CAP * 4), st.sampled_from(["a", "é", "😀"]), st.integers(1, 500))
def test_a_tail_grows_by_what_is_added_until_the_next_step(length: int, character: str, more: int) -> None:
    before, after = character * length, character * (length + more)
    if omitted_units(units(before)) == omitted_units(units(after)):
        assert tail(after)[0] == tail(before)[0] + character * more
    else:
        assert after.endswith(tail(after)[0])
        assert units(tail(after)[0]) <= CAP
