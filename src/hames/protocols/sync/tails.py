"""The tail of a long output: what a state carries of it, and how it moves on.

Measured in UTF-16 code units, because a browser's strings are. The beginning is left out in steps of `STEP`
units, so that a running command costs one `set` per step and appends in between.
"""

CAP = 65_536
STEP = 32_768


def units(text: str) -> int:
    """
    >>> units("aé😀")
    4
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def omitted_units(count: int) -> int:
    """How many units are missing at the beginning when there are `count` in all.

    >>> omitted_units(65536), omitted_units(65537), omitted_units(98304), omitted_units(98305)
    (0, 32768, 32768, 65536)
    """
    return 0 if count <= CAP else STEP * -(-(count - CAP) // STEP)


def tail(text: str) -> tuple[str, bool]:
    """What is shown of it, and whether that is less than all."""
    if len(text) * 2 <= CAP:  # whatever the characters are
        return text, False
    missing = omitted_units(units(text))
    return (_skip_units(text, missing), True) if missing else (text, False)


def _skip_units(text: str, missing: int) -> str:
    """The text without its first units; a character that straddles the cut goes with them."""
    if text.isascii():
        return text[missing:]
    encoded = text.encode("utf-16-le", "surrogatepass")
    before, after = encoded[2 * missing - 2 : 2 * missing], encoded[2 * missing : 2 * missing + 2]
    if _between(before, 0xD8, 0xDB) and _between(after, 0xDC, 0xDF):
        missing += 1
    return encoded[2 * missing :].decode("utf-16-le", "surrogatepass")


def _between(unit: bytes, low: int, high: int) -> bool:
    return len(unit) == 2 and low <= unit[1] <= high
