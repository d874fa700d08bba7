"""Reviews as Codex's clients see them: an item when the review begins, and one with the findings when it ends.

No log has these items. They are made of the turn, so that a client which comes later sees the same.
"""

from hames.domain.items import AgentMessage, TextInput, UserMessage
from hames.domain.json import Json
from hames.domain.state import Turn


def entered_review(turn: Turn) -> dict[str, Json] | None:
    """As soon as the turn says what is reviewed."""
    message = next((item for item in turn.items if isinstance(item, UserMessage)), None)
    if turn.kind != "review" or message is None:
        return None
    asked = "\n".join(part.text for part in message.content if isinstance(part, TextInput))
    return {"type": "enteredReviewMode", "id": f"{turn.id}-review-entered", "review": asked}


def exited_review(turn: Turn) -> dict[str, Json] | None:
    """The last thing the agent said is the review."""
    if turn.kind != "review" or turn.status == "running" or entered_review(turn) is None:
        return None
    texts = [item.text for item in turn.items if isinstance(item, AgentMessage) and item.text]
    return {"type": "exitedReviewMode", "id": f"{turn.id}-review-exited", "review": texts[-1] if texts else ""}
