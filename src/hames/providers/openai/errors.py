"""How services that speak like OpenAI's report errors, in a response body and inside a stream."""

from hames.codecs.jsontext import text_member
from hames.domain.json import Json
from hames.providers.failures import ServiceRefusal


def read_error_body(body: Json) -> ServiceRefusal:
    """`{"error": {…}}` is usual; `{"error": "…"}`, `{"detail": "…"}` and the bare object happen."""
    message = body[0] if isinstance(body, list) and body else body
    if not isinstance(message, dict):
        return ServiceRefusal()
    error = message.get("error") or message.get("detail") or (message if message.get("object") == "error" else None)
    if isinstance(error, str):
        return ServiceRefusal(kind="error", message=error)
    return ServiceRefusal(
        kind=text_member(error, "type"), code=text_member(error, "code"), message=text_member(error, "message")
    )


def read_stream_error(error: Json) -> ServiceRefusal:
    """An error inside a stream that had begun well."""
    kind = " ".join(filter(None, (text_member(error, "type"), text_member(error, "code"))))
    status = error.get("code") if isinstance(error, dict) else None
    code = f"{status}" if isinstance(status, int) else ""
    if code in ("502", "503", "529"):
        kind = f"{kind} overloaded"
    elif code == "429":
        kind = f"{kind} rate_limit"
    elif code in ("500", "504"):
        kind = "server_error"
    return ServiceRefusal(kind=kind, message=text_member(error, "message") or (error if isinstance(error, str) else ""))
