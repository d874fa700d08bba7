"""`experimentalRawEvents`: what the model said, read and called, as items of OpenAI's Responses API.

Codex passes on what its model service sent. Here the model may be another one, so the items are made from the thread.
"""

from hames.domain import items as domain
from hames.domain.events import ToolCalled
from hames.domain.items import Item
from hames.domain.json import Json
from hames.domain.state import ThreadState

WISH = "experimentalRawEvents"
METHOD = "rawResponseItem/completed"


def wants_raw_items(state: ThreadState) -> bool:
    return isinstance(state.meta, dict) and state.meta.get(WISH) is True


def raw_call(event: ToolCalled) -> Json:
    call = event.call
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def raw_item(item: Item) -> Json | None:
    """None for what the model neither said nor read: it sees a summary only when it goes on from it."""
    match item:
        case domain.UserMessage(id=item_id, content=content):
            parts = [part for part in map(_input, content) if part is not None]
            return {"type": "message", "id": item_id, "role": "user", "content": parts}
        case domain.AgentMessage(id=item_id, text=text):
            said = [{"type": "output_text", "text": text}]
            return {"type": "message", "id": item_id, "role": "assistant", "content": said}
        case domain.Reasoning(id=item_id, text=text, summary=summary):
            return {
                "type": "reasoning",
                "id": item_id,
                "summary": [{"type": "summary_text", "text": summary}] if summary else [],
                "content": [{"type": "reasoning_text", "text": text}] if text else None,
                "encrypted_content": None,
            }
        case domain.Compaction():
            return None
        case _ if item.call_id:
            text = "" if item.result is None else item.result.text
            return {"type": "function_call_output", "call_id": item.call_id, "output": text}
        case _:
            return None


def _input(part: domain.UserInput) -> Json | None:
    match part:
        case domain.TextInput(text=text):
            return {"type": "input_text", "text": text}
        case domain.ImageInput(url=url):
            return {"type": "input_image", "image_url": url}
        case domain.LocalImageInput(path=path) | domain.FileInput(path=path):
            return {"type": "input_text", "text": path}
