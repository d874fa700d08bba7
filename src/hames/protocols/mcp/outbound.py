"""What a thread is to an MCP client: the result of a tool call, a line of progress, a resource."""

from hames.domain.approvals import Approval, Elicit
from hames.domain.commands import ThreadPage
from hames.domain.errors import InvalidCommand
from hames.domain.events import ApprovalRequested, ItemCompleted, ItemDelta, ItemStarted, Noticed, StepVoided
from hames.domain.forms import question
from hames.domain.grants import grant_for
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage, CommandExecution, FileChange, Item, ToolItem, UserMessage, reason_of
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState, Turn, is_voided
from hames.protocols.describe import approval_question, intent_members, prompt_text, tool_name

URI = "hames://threads/"
MARKDOWN = "text/markdown"


def uri_of(thread_id: str) -> str:
    return f"{URI}{thread_id}"


def thread_of(uri: Json) -> ThreadId:
    """Raises `InvalidCommand`."""
    if not isinstance(uri, str) or not uri.startswith(URI) or "/" in uri[len(URI) :] or uri == URI:
        raise InvalidCommand(f"the uri of a thread is {URI}THREAD-ID")
    return ThreadId(uri[len(URI) :])


def final_text(turn: Turn) -> str:
    """The last thing that the agent said in a turn."""
    said = [one.text for one in turn.items if isinstance(one, AgentMessage) and not is_voided(turn, one)]
    return next((text for text in reversed(said) if text.strip()), "")


def status_of(state: ThreadState, turn: Turn | None) -> str:
    if turn is None:
        return "idle"
    if turn.status == "running":
        return "approval_needed" if state.approvals else "running"
    return turn.status


def thread_result(state: ThreadState, turn: Turn | None, *, can_answer: bool = True) -> dict[str, Json]:
    """The result of a tool call about a thread, as of now."""
    status = status_of(state, turn)
    text = final_text(turn) if turn is not None else ""
    approvals = [approval_members(one) for one in state.approvals] if status == "approval_needed" else []
    words = [text] if text else []
    if turn is not None and turn.error is not None:
        words.append(f"The turn {turn.status}: {turn.error.message}")
    elif status == "interrupted":
        words.append("The turn was interrupted.")
    elif status == "running":
        words.append("The agent still works; hames-status says when it has finished.")
    for one in approvals:
        how = "Ask the user, then call hames-answer" if can_answer else "Somebody else has to answer it"
        words.append(f"Approval needed ({one['id']}): {one['question']}\n{how}.")
    words.append(f"threadId: {state.id}")
    shown: dict[str, Json] = {"threadId": state.id, "status": status, "content": text}
    if approvals:
        shown["approvals"] = approvals
    if turn is not None and turn.error is not None:
        shown["error"] = turn.error.message
    return {
        "content": [{"type": "text", "text": "\n\n".join(words)}],
        "structuredContent": shown,
        "isError": status == "failed",
    }


def failure(why: str) -> dict[str, Json]:
    return {"content": [{"type": "text", "text": why}], "isError": True}


def interrupted_result(thread_id: str) -> dict[str, Json]:
    return {
        "content": [{"type": "text", "text": "The turn was interrupted."}],
        "structuredContent": {"threadId": thread_id, "status": "interrupted", "content": ""},
        "isError": False,
    }


def approval_members(approval: Approval) -> dict[str, Json]:
    return {"id": approval.id, "question": approval_question(approval), **intent_members(approval.intent)}


def elicitation(approval: Approval) -> Json:
    """The parameters of `elicitation/create`."""
    intent = approval.intent
    if isinstance(intent, Elicit):
        if intent.url:
            return {"mode": "url", "message": question(intent), "url": intent.url, "elicitationId": approval.id}
        known = intent.schema if isinstance(intent.schema, dict) else {}
        schema = {"type": "object", "properties": {}, **{name: known[name] for name in known if name in _FORM}}
        return {"mode": "form", "message": question(intent), "requestedSchema": schema}
    choices = ["once", *(["always"] if grant_for(intent) is not None else []), "reject"]
    decision = {"type": "string", "title": "Decision", "enum": choices}
    schema = {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}
    return {"mode": "form", "message": approval_question(approval), "requestedSchema": schema}


_FORM = ("properties", "required")


def progress_lines(changes: list[Change]) -> list[str]:
    """What happened, for people: what the agent says, joined, and a line for each tool."""
    lines: list[str] = []
    said = ""
    for change in changes:
        event = change.record.event
        if isinstance(event, ItemDelta):
            if event.stream == "text" and isinstance(change.after.item(event.item_id), AgentMessage):
                said += event.text
            continue
        line = _progress_line(event)
        if line:
            lines += [said, line] if said else [line]
            said = ""
    return [*lines, said] if said else lines


def _progress_line(event: object) -> str:
    match event:
        case ItemStarted(item=CommandExecution(command=command)):
            return f"$ {command}"
        case ItemStarted(item=FileChange(changes=changes)):
            return "edit " + ", ".join(one.path for one in changes)
        case ItemStarted(item=item) if isinstance(item, ToolItem):
            return tool_name(item)
        case ItemCompleted(item=item) if isinstance(item, ToolItem):
            why = reason_of(item).partition("\n")[0]
            return f"{tool_name(item)}: {item.status}{f' ({why})' if why else ''}"
        case ApprovalRequested(approval=approval):
            return f"waits for an approval: {approval_question(approval)}"
        case Noticed(message=message, severity="warning"):
            return f"warning: {message}"
        case StepVoided():
            return "the connection to the model was lost; the reply starts again"
        case _:
            return ""


def thread_markdown(state: ThreadState) -> str:
    """A whole thread to read."""
    parts = [f"# {state.title or state.preview or state.id}"]
    parts += [text for turn in state.turns for item in turn.items if (text := _item_markdown(item))]
    return "\n\n".join(parts) + "\n"


def _item_markdown(item: Item) -> str:
    match item:
        case UserMessage(content=content):
            return f"**User:** {prompt_text(content)}"
        case AgentMessage(text=text):
            return text
        case CommandExecution(command=command, output=output, exit_code=code):
            return f"```\n$ {command}\n{output[-2000:]}\n(exit code {code})\n```"
        case FileChange(changes=changes):
            return "\n".join(f"```diff\n{one.diff}\n```" for one in changes)
        case _:
            return f"*{tool_name(item)}*" if isinstance(item, ToolItem) else ""


def resource_page(page: ThreadPage) -> dict[str, Json]:
    found: dict[str, Json] = {
        "resources": [
            {
                "uri": uri_of(one.id),
                "name": one.id,
                "title": one.title or one.preview or one.id,
                "mimeType": MARKDOWN,
            }
            for one in page.threads
        ]
    }
    return found if page.next_cursor is None else {**found, "nextCursor": page.next_cursor}


def list_result(page: ThreadPage) -> dict[str, Json]:
    rows: list[Json] = [
        {"threadId": one.id, "title": one.title or one.preview, "cwd": one.cwd, "status": one.standing}
        for one in page.threads
    ]
    text = "\n".join(f"{row['threadId']}  {row['status']:<8} {row['title']}" for row in rows) or "There are no threads."
    shown: dict[str, Json] = {"threads": rows}
    if page.next_cursor is not None:
        shown["nextCursor"] = page.next_cursor
        text += f"\ncursor of the next page: {page.next_cursor}"
    return {"content": [{"type": "text", "text": text}], "structuredContent": shown, "isError": False}
