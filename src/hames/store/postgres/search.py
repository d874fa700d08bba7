"""The words of messages, for the search in all threads: the same records and the same rules as the file store has."""

import re
import unicodedata
from typing import Final, NamedTuple

from hames.domain.events import Record
from hames.store.search import LEAST_PREFIX, TEXT_CHARS, searchable

MOST_WORDS: Final = 20_000
WORD_CHARS: Final = 100
WORDS_BYTES: Final = 500_000
"""PostgreSQL takes a list of words of up to 1 MiB."""

_WORD = re.compile(r"[^\W_]+")


class SearchedWords(NamedTuple):
    """A row of `hames.words`."""

    thread: str
    seq: int
    text: str
    words: str


def words_of(record: Record) -> SearchedWords | None:
    """None: the record has nothing to be found by."""
    if not (text := searchable(record)):
        return None
    text = text[:TEXT_CHARS].replace("\0", "\ufffd")  # PostgreSQL has no such character
    words: list[str] = []
    size = 0
    for word in dict.fromkeys(plain_words(text)):
        size += len(word.encode()) + 8
        if len(words) >= MOST_WORDS or size > WORDS_BYTES:
            break
        words.append(word)
    return SearchedWords(record.thread_id, record.seq, text, " ".join(words))


def plain_words(text: str) -> list[str]:
    """Without accents and capitals.

    >>> plain_words("Über src/hames/foo_bar.py")
    ['uber', 'src', 'hames', 'foo', 'bar', 'py']
    """
    plain = "".join(char for char in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(char))
    return [word[:WORD_CHARS] for word in _WORD.findall(plain)]


def query_of(search: str) -> str:
    """A search in PostgreSQL's words: every word, as it is or as the beginning of a longer one.

    >>> query_of("foo_bar of")
    "'foo':* & 'bar':* & 'of'"
    """
    words = dict.fromkeys(plain_words(search))
    return " & ".join(f"'{word}'{':*' if len(word) >= LEAST_PREFIX else ''}" for word in words)
