"""`ask_user`: questions to the person, with choices or in words of their own, through every protocol that can ask."""

from msgspec.structs import replace

from hames.domain.approvals import Answer, Elicit, Harmless
from hames.domain.forms import AGENT
from hames.domain.items import ToolCall, ToolItem, ToolResult
from hames.domain.json import Json
from hames.domain.policy import SandboxPolicy
from hames.ports import Job, Tell, ToolSpec, Work

MAX_QUESTIONS = 4
MAX_CHOICES = 10
OTHER = "in your own words"
UNANSWERED = "The user did not answer. Decide yourself what is most sensible, and say so in your answer."


class AskUserTool:
    spec = ToolSpec(
        name="ask_user",
        description=(
            "Ask the user when the task leaves something open that only they can decide. Give the choices you see; "
            "they can also answer in their own words. Do not ask for what you can find out."
        ),
        schema={
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_QUESTIONS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "question": {"type": "string", "minLength": 1, "maxLength": 1_000},
                            "choices": {
                                "type": "array",
                                "maxItems": MAX_CHOICES,
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "label": {"type": "string", "minLength": 1, "maxLength": 200},
                                        "description": {"type": "string", "maxLength": 500},
                                    },
                                    "required": ["label"],
                                    "additionalProperties": False,
                                },
                            },
                            "several": {"type": "boolean", "description": "More than one choice may be taken."},
                        },
                        "required": ["question"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["questions"],
            "additionalProperties": False,
        },
        asks=True,
    )

    async def prepare(self, job: Job) -> Work:
        return _Asking(job)


class _Asking:
    def __init__(self, job: Job) -> None:
        self.item = ToolCall(
            id=job.item_id, step=job.step, call_id=job.call.id, name=job.call.name, arguments=job.arguments
        )
        self.intent = Harmless()
        self._ask = job.ask
        self._questions: list[dict[str, Json]] = job.arguments["questions"]

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:  # noqa: ARG002
        if self._ask is None:
            return replace(self.item, status="completed", result=ToolResult(text=UNANSWERED))
        answer = await self._ask(Elicit(server=AGENT, message=_message(self._questions), schema=_form(self._questions)))
        result = ToolResult(text=_told(self._questions, answer))
        return replace(self.item, status="completed", result=result)


def _names(number: int, count: int) -> tuple[str, str]:
    return ("answer", "other") if count == 1 else (f"answer_{number}", f"other_{number}")


def _message(questions: list[dict[str, Json]]) -> str:
    """The questions, and what the choices mean."""
    lines: list[str] = []
    for number, one in enumerate(questions, 1):
        lines.append(one["question"] if len(questions) == 1 else f"{number}. {one['question']}")
        lines += [
            f"  {choice['label']}: {choice['description']}" for choice in _choices(one) if choice.get("description")
        ]
    return "\n".join(lines)


def _form(questions: list[dict[str, Json]]) -> Json:
    properties: dict[str, Json] = {}
    required: list[str] = []
    for number, one in enumerate(questions, 1):
        answer, other = _names(number, len(questions))
        labels = [choice["label"] for choice in _choices(one)]
        if not labels:
            properties[answer] = {"type": "string", "title": one["question"]}
            required.append(answer)
            continue
        choice: Json = {"type": "string", "enum": labels}
        several = bool(one.get("several"))
        field: dict[str, Json] = {"type": "array", "items": choice} if several else choice
        properties[answer] = {**field, "title": one["question"]}
        properties[other] = {"type": "string", "title": OTHER}
    return {"type": "object", "properties": properties, "required": required}


def _told(questions: list[dict[str, Json]], answer: Answer) -> str:
    content: dict[str, Json] = answer.content if isinstance(answer.content, dict) else {}
    if answer.decision not in ("once", "always"):
        return f"{UNANSWERED} ({answer.note})" if answer.note else UNANSWERED
    lines: list[str] = []
    for number, one in enumerate(questions, 1):
        given = [content.get(name) for name in _names(number, len(questions))]
        words = [", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in given if value]
        lines.append(f"{one['question']}\n{'; '.join(words) or '(no answer)'}")
    return "The user answered:\n" + "\n".join(lines)


def _choices(question: dict[str, Json]) -> list[dict[str, Json]]:
    """Each label once: a form cannot tell two of them apart."""
    return list({choice["label"]: choice for choice in question.get("choices") or []}.values())
