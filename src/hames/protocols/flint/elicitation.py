"""What an MCP server asks a person, as flint carries it: Codex's `mcpServer/elicitation/request`, and its answer.

An answer is a response, and a response cannot be refused: a form that does not fit is a decline that says why.
"""

from hames.codecs.jsonrpc_peer import JsonRpcResponse
from hames.domain.approvals import Elicit
from hames.domain.commands import ResolveApproval
from hames.domain.forms import members, misfit
from hames.domain.ids import ApprovalId
from hames.domain.json import Json

METHOD = "mcpServer/elicitation/request"

_OF_SCHEMAS = ("$schema", "type", "properties", "required")
"""What Codex's clients accept of a form. They refuse one with a title."""


def codex_question(approval_id: ApprovalId, elicit: Elicit) -> dict[str, Json]:
    """What is asked, as Codex's own clients read it."""
    told: dict[str, Json] = {"serverName": elicit.server, **members(elicit), "_meta": None}
    if elicit.url:
        told["elicitationId"] = approval_id
    else:
        schema: dict[str, Json] = elicit.schema if isinstance(elicit.schema, dict) else {}
        kept = {name: schema[name] for name in _OF_SCHEMAS if name in schema}
        told["requestedSchema"] = {"type": "object", "properties": {}, **kept}
    return told


def decode_answer(response: JsonRpcResponse, elicit: Elicit) -> ResolveApproval:
    """Only the exact words agree, as everywhere. `cancel` puts the question aside and the turn goes on."""
    result: Json = response.result if isinstance(response.result, dict) and response.error is None else {}
    if result.get("action") == "cancel":
        return ResolveApproval(approval_id=ApprovalId(response.request_id), decision="void")
    if result.get("action") != "accept":
        return ResolveApproval(approval_id=ApprovalId(response.request_id), decision="reject")
    content = result.get("content")
    if complaint := misfit(elicit, content):
        note = f"declined: the form is not valid: {complaint}"
        return ResolveApproval(approval_id=ApprovalId(response.request_id), decision="reject", note=note)
    return ResolveApproval(approval_id=ApprovalId(response.request_id), decision="once", content=content)
