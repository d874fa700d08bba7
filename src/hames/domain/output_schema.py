"""Answers that have to match a JSON Schema: what the model is told, and whether its answer fits. Pure."""

import json

import msgspec

from hames.domain import schema
from hames.domain.json import Json


def request_text(wanted: Json) -> str:
    """What the model is told beside the prompt."""
    text = msgspec.json.encode(wanted).decode()
    return f"End with a message that is JSON and nothing else, and that fits this JSON Schema:\n{text}"


def repair_text(complaint: str) -> str:
    return f"That was not the JSON asked for: {complaint}. Answer with nothing but JSON that fits the schema."


def read_answer(text: str, wanted: Json) -> tuple[Json, str]:
    """The JSON in an answer, and what is wrong with it.

    >>> read_answer('Here it is: ```json\\n{"n": 1}\\n```', {"type": "object", "required": ["n"]})
    ({'n': 1}, '')
    >>> read_answer('Here it is: {"n": 1}', {"type": "object", "required": ["n"]})
    ({'n': 1}, '')
    """
    body = text.strip()
    answer, problem = _parsed(body)
    if problem and "```" in body:
        answer, problem = _parsed(body.split("```")[1].removeprefix("json").strip())
    elif problem and (begin := min((at for at in (body.find("{"), body.find("[")) if at > 0), default=0)):
        answer, problem = _parsed(body[begin:])
    return (None, problem) if problem else (answer, schema.check(answer, wanted))


def is_json(text: str) -> bool:
    """Whether the whole text is JSON, so that a program can read it as it is."""
    return not _parsed(text.strip())[1]


def _parsed(text: str) -> tuple[Json, str]:
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as problem:
        return None, f"it is not JSON ({problem})"
