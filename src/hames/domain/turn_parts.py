"""The small parts of a thread's state: calls, added words, answers, waiting prompts and warnings."""

from hames.domain.actors import Actor
from hames.domain.events import Noticed
from hames.domain.ids import ItemId, PromptId
from hames.domain.items import Call, UserInput
from hames.domain.json import NOTHING, Json
from hames.domain.policy import Decision
from hames.domain.value import Value


class Called(Value):
    """A call the model made, and how many items of the turn came before it."""

    step: int
    position: int
    call: Call


class AddedContext(Value):
    """Words of the harness to the model, and how many items of the turn came before them."""

    step: int
    position: int
    text: str


class AnsweredApproval(Value):
    """A question that was answered, and by whom if the log says so."""

    item_id: ItemId
    decision: Decision
    by: Actor | None = None


class QueuedPrompt(Value):
    id: PromptId
    content: tuple[UserInput, ...]
    output_schema: Json = NOTHING
    meta: Json = NOTHING
    by: Actor | None = None


class Warned(Value):
    """A notice that is a warning, and when it came."""

    at_ms: int
    notice: Noticed
