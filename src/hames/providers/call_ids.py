"""Tool calls and their results as services accept them: ids of their alphabet and length, none twice, no empty text.

A thread may have used another provider before, whose ids had dots in them, or were all the same.
"""

import re
from collections import defaultdict, deque

from hames.domain.request import ResultBlock

_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")


class CallNames:
    """Give it calls and results in the order they were made.

    >>> names = CallNames()
    >>> names.call("a.1"), names.call("a.1"), names.result("a.1"), names.result("a.1")
    ('a_1', 'a_1_2', 'a_1', 'a_1_2')
    """

    def __init__(self, *, longest: int = 0) -> None:
        """`longest` 0: there is no limit."""
        self._longest = longest
        self._taken: set[str] = set()
        self._answers: defaultdict[str, deque[str]] = defaultdict(deque)

    def call(self, call_id: str) -> str:
        stem = self._stem(call_id)
        name, number = stem, 2
        while name in self._taken:
            end = f"_{number}"
            name, number = stem[: self._longest - len(end) if self._longest else None] + end, number + 1
        self._taken.add(name)
        self._answers[call_id].append(name)
        return name

    def result(self, call_id: str) -> str:
        waiting = self._answers[call_id]
        return waiting.popleft() if waiting else self._stem(call_id)

    def _stem(self, call_id: str) -> str:
        stem = plain(call_id) or "call"
        return stem[-self._longest :] if self._longest else stem


def plain(name: str) -> str:
    """The name in letters, digits, `_` and `-`."""
    return _NOT_IN_ID.sub("_", name)


def result_text(block: ResultBlock) -> str:
    """What a call returned, or a remark where it returned no text."""
    return block.text if block.text.strip() else "(failed without a message)" if block.failed else "(no output)"
