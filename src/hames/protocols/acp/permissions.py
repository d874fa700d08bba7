"""Questions to the user: which options a permission request has, and what the client's answer decides.

A form or an address that a tool asks for is `elicitation/create` where the client offers it. Elsewhere it is a
permission request with the choices that a person can make by picking one option.
"""

from hames.codecs.jsonrpc_peer import JsonRpcResponse
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.commands import ResolveApproval
from hames.domain.forms import AGENT, misfit, properties, question
from hames.domain.grants import grant_for
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.items import FileUpdate
from hames.domain.json import Json
from hames.domain.value import Value
from hames.protocols.acp.messages.v1 import CreateElicitationRequest, PermissionOption

ALLOW, ALWAYS, REJECT = "allow_once", "allow_always", "reject_once"
CHOICE = "choice:"
"""Begins the id of an option that fills in a form."""
MOST_CHOICES = 12

_OF_SCHEMAS = ("type", "title", "description", "properties", "required")


class ElicitationModes(Value):
    """What the client can show."""

    form: bool = False
    url: bool = False

    def can_show(self, elicit: Elicit) -> bool:
        return self.url if elicit.url else self.form


def permission_title(approval: Approval) -> str:
    match approval.intent:
        case RunCommand(command=command, process=process):
            return f"Send to {process}: {command}" if process else command
        case ChangeFiles(changes=changes):
            names = ", ".join(change.path for change in changes[:3])
            return f"Change {names}{' …' if len(changes) > 3 else ''}"
        case CallMcp(server=server, tool=tool):
            return f"{server}: {tool}"
        case UseTool(name=name):
            return name
        case Elicit() as elicit:
            return question(elicit)


def permission_input(approval: Approval) -> Json:
    match approval.intent:
        case RunCommand(command=command, cwd=cwd, unsandboxed=unsandboxed):
            return {"command": command, "cwd": cwd, **({"unsandboxed": True} if unsandboxed else {})}
        case CallMcp(arguments=arguments) | UseTool(arguments=arguments):
            return arguments
        case ChangeFiles() | Elicit():
            return None


def permission_changes(approval: Approval) -> tuple[FileUpdate, ...]:
    return approval.intent.changes if isinstance(approval.intent, ChangeFiles) else ()


def permission_options(approval: Approval) -> list[PermissionOption]:
    if isinstance(approval.intent, Elicit):
        return [*_elicit_options(approval.intent), PermissionOption(option_id=REJECT, name="Decline", kind=REJECT)]
    always = grant_for(approval.intent) is not None
    return [
        PermissionOption(option_id=ALLOW, name="Allow", kind=ALLOW),
        *([PermissionOption(option_id=ALWAYS, name="Always allow this", kind=ALWAYS)] if always else []),
        PermissionOption(option_id=REJECT, name="Reject", kind=REJECT),
    ]


def _elicit_options(elicit: Elicit) -> list[PermissionOption]:
    if elicit.url:
        return [PermissionOption(option_id=ALLOW, name="I have visited the address", kind=ALLOW)]
    if choices := _choices(elicit):
        return [
            PermissionOption(option_id=f"{CHOICE}{number}", name=str(value), kind=ALLOW)
            for number, (_, value) in enumerate(choices)
        ]
    if not misfit(elicit, None):
        return [PermissionOption(option_id=ALLOW, name="Accept", kind=ALLOW)]
    return []


def _choices(elicit: Elicit) -> list[tuple[str, Json]]:
    """The answers to a form with one field that is a choice or a yes-or-no."""
    fields = list(properties(elicit.schema).items())
    if len(fields) != 1:
        return []
    name, field = fields[0]
    match field:
        case {"type": "boolean"}:
            values: list[Json] = [True, False]
        case {"enum": list(words)}:
            values = list(words)
        case {"oneOf": list(options)} | {"anyOf": list(options)}:
            values = [one["const"] for one in options if isinstance(one, dict) and "const" in one]
        case _:
            values = []
    return [(name, value) for value in values] if len(values) <= MOST_CHOICES else []


def elicitation(approval: Approval, elicit: Elicit, thread_id: ThreadId) -> CreateElicitationRequest:
    """For a client that can show it."""
    return CreateElicitationRequest(
        mode="url" if elicit.url else "form",
        message=elicit.message if elicit.server == AGENT else f"{elicit.server}: {elicit.message}",
        session_id=thread_id,
        tool_call_id=approval.item_id,
        url=elicit.url or None,
        elicitation_id=approval.id if elicit.url else None,
        requested_schema=None if elicit.url else _form(elicit.schema),
    )


def _form(schema: Json) -> Json:
    known: dict[str, Json] = schema if isinstance(schema, dict) else {}
    kept = {name: known[name] for name in _OF_SCHEMAS if name in known}
    return {"type": "object", "properties": {}, **kept}


def is_cancelled(response: JsonRpcResponse) -> bool:
    """Whether the client says that the user cancelled the turn which asks."""
    match response.result:
        case {"outcome": {"outcome": "cancelled"}} if response.error is None:
            return True
        case _:
            return False


def decode_permission(response: JsonRpcResponse, approval: Approval) -> ResolveApproval:
    """Only an option that was offered agrees. An error, another word, another type: a rejection."""
    approval_id = ApprovalId(response.request_id)
    if response.error is not None:
        note = "rejected: the client could not ask the user"
        return ResolveApproval(approval_id=approval_id, decision="reject", note=note)
    match response.result:
        case {"outcome": {"outcome": "selected", "optionId": str(option)}}:
            pass
        case _:
            option = ""
    if option not in [one.option_id for one in permission_options(approval)] or option == REJECT:
        return ResolveApproval(approval_id=approval_id, decision="reject")
    if option.startswith(CHOICE) and isinstance(approval.intent, Elicit):
        name, value = _choices(approval.intent)[int(option.removeprefix(CHOICE))]
        return ResolveApproval(approval_id=approval_id, decision="once", content={name: value})
    return ResolveApproval(approval_id=approval_id, decision="always" if option == ALWAYS else "once")


def decode_elicitation(response: JsonRpcResponse, elicit: Elicit) -> ResolveApproval:
    """A form that does not fit is a decline that says why: a response cannot be refused."""
    approval_id = ApprovalId(response.request_id)
    result: Json = response.result if isinstance(response.result, dict) and response.error is None else {}
    if result.get("action") == "cancel":
        return ResolveApproval(approval_id=approval_id, decision="void")
    if result.get("action") != "accept":
        return ResolveApproval(approval_id=approval_id, decision="reject")
    content = result.get("content")
    if complaint := misfit(elicit, content):
        note = f"declined: the form is not valid: {complaint}"
        return ResolveApproval(approval_id=approval_id, decision="reject", note=note)
    return ResolveApproval(approval_id=approval_id, decision="once", content=content)
