"""What a client's answer to an approval means. Only the exact words agree; everything else declines."""

from hames.domain.json import Json
from hames.domain.policy import AlwaysScope, Decision
from hames.domain.rules import Rule, pattern_words

FOR_PROJECT = "acceptForProject"
CODEX_AMENDMENT = "acceptWithExecpolicyAmendment"
_DECISIONS: dict[str, tuple[Decision, AlwaysScope]] = {
    "accept": ("once", "thread"),
    "acceptForSession": ("always", "thread"),
}


def read_decision(word: Json, offer: Rule | None) -> tuple[Decision, AlwaysScope]:
    """An error, another word, another type, two answers in one, a rule that was not offered: a rejection."""
    if isinstance(word, str) and word in _DECISIONS:
        return _DECISIONS[word]
    kept = word == FOR_PROJECT or (offer is not None and word == codex_decision(offer))
    return ("always", "project") if kept and offer is not None else ("reject", "thread")


def amendment(offer: Rule | None) -> list[str]:
    """The words of a rule for commands, as Codex has them: a prefix. Empty for any other rule."""
    if offer is None or not offer.command:
        return []
    words = list(pattern_words(offer.command))
    return words[:-1] if words[-1] == "*" and len(words) > 1 else []


def codex_decision(offer: Rule) -> Json:
    return {CODEX_AMENDMENT: {"execpolicy_amendment": amendment(offer)}}
