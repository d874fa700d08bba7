"""What a runner is asked, and what it must be able to do for it. Pure.

Everything that the turn depends on is said with each run: a runner's thread keeps what it was told before.
"""

from collections.abc import Sequence

import msgspec

from hames.agents.history import past_messages, shown_content
from hames.agents.runner.models import their_name
from hames.domain.items import ImageInput, TextInput, UserMessage
from hames.domain.json import NOTHING, Json
from hames.domain.options import Settings
from hames.domain.policy import ExternalSandbox, WorkspaceWrite
from hames.domain.state import Turn
from hames.ports import Compact, Prompt, Review, Task

COMPACT = "Summarize the conversation so far."


def run_body(task: Task, settings: Settings, *, cwd: str, history: Sequence[Turn]) -> tuple[dict[str, Json], list[str]]:
    """The members of `POST /runs`, and what a runner must be able to do beyond the specification.

    `cwd` is the server's own directory: a thread there runs in the runner's own. `history` are the turns that the
    runner has not seen.
    """
    needs: list[str] = []
    body: dict[str, Json] = {"prompt": "", "approvalPolicy": settings.approval_policy}
    body["sandbox"] = msgspec.to_builtins(settings.sandbox)
    if settings.approval_policy == "always":
        needs.append("approvalPolicy")
    if settings.sandbox != WorkspaceWrite() and not isinstance(settings.sandbox, ExternalSandbox):
        needs.append("sandbox")

    def add(need: str, **members: Json) -> None:
        """Adds members that say something, and the need that comes with them."""
        if said := {name: value for name, value in members.items() if value not in (None, "", (), [], {})}:
            body.update(said)
            needs.append(need)

    add("model", model=their_name(settings.model))
    add("agent", agent=settings.agent if settings.agent != "code" else "")
    add("options", options=settings.options)
    personality = settings.personality if settings.personality != "none" else ""
    add(
        "instructions",
        instructions=settings.instructions,
        baseInstructions=settings.base_instructions,
        modeInstructions=settings.mode_instructions,
        personality=personality,
    )
    add("mcpServers", mcpServers=msgspec.to_builtins(settings.mcp_servers))
    add("cwd", cwd=settings.cwd if settings.cwd != cwd else "")
    add("history", history=[past_turn(turn) for turn in history])
    match task:
        case Prompt(message=message, output_schema=schema):
            _add_message(body, needs, message)
            if schema is not NOTHING:  # for a runner that does not know it, it is a part of the prompt
                body["outputSchema"] = schema
        case Review(target=target, message=message):
            _add_message(body, needs, message)
            add("review", task="review", target=msgspec.to_builtins(target))
        case Compact():
            body["prompt"] = COMPACT
            add("compact", task="compact")
    return body, needs


def content(message: UserMessage) -> list[Json]:
    return [_part(part) for part in shown_content(message)]


def past_turn(turn: Turn) -> Json:
    said = past_messages([turn])
    messages = [{"role": one.role, "content": [_part(part) for part in one.content]} for one in said]
    return {"id": turn.id, "messages": messages}


def _add_message(body: dict[str, Json], needs: list[str], message: UserMessage) -> None:
    parts = shown_content(message)
    body["prompt"] = "\n".join(part.text for part in parts if isinstance(part, TextInput))
    if any(isinstance(part, ImageInput) for part in parts):
        body["content"] = content(message)
        needs.append("images")


def _part(part: TextInput | ImageInput) -> Json:
    match part:
        case TextInput(text=text):
            return {"type": "text", "text": text}
        case ImageInput(url=url):
            return {"type": "image", "url": url}
