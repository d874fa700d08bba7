"""A thread's id as a UUID, and back. Codex's terminal takes no other kind of name.

It is the same id in another spelling, not another id: the letters behind `ses_` are a number, and a
version 8 UUID has room for it. A name of any other form stays as it is.

>>> to_uuid(ThreadId("ses_1k0a7n8wbvnzrk17sn1f0mj"))
'00198147-aa38-8bdd-9fe2-613e6a178292'
>>> from_uuid(_)
'ses_1k0a7n8wbvnzrk17sn1f0mj'
>>> from_uuid("ses_other")
'ses_other'
"""

from functools import lru_cache

from hames.domain.ids import ThreadId

_PREFIX = "ses_"
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_LENGTH = 23
_LOW = (1 << 62) - 1


@lru_cache(maxsize=1024)  # asked for with every token
def to_uuid(thread_id: ThreadId) -> str:
    word = thread_id.removeprefix(_PREFIX)
    if not thread_id.startswith(_PREFIX) or len(word) != _LENGTH or not _VALUES.keys() >= set(word):
        return thread_id
    number = 0
    for digit in word:
        number = number << 5 | _VALUES[digit]
    number = number >> 74 << 80 | 8 << 76 | (number >> 62 & 0xFFF) << 64 | 0b10 << 62 | number & _LOW
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def from_uuid(name: str) -> ThreadId:
    text = name.replace("-", "")
    if len(text) != 32 or len(name) != 36:
        return ThreadId(name)
    try:
        given = int(text, 16)
    except ValueError:
        return ThreadId(name)
    number = given >> 80 << 74 | (given >> 64 & 0xFFF) << 62 | given & _LOW
    word = "".join(_DIGITS[number >> 5 * place & 31] for place in range(_LENGTH - 1, -1, -1))
    mine = ThreadId(_PREFIX + word)
    return mine if to_uuid(mine) == name else ThreadId(name)
