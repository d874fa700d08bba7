"""How services that speak like OpenAI's report errors, in a response body and inside a stream."""

import msgspec

from hames.domain.json import Json
from hames.providers.failures import ServiceRefusal
from hames.providers.jsontext import word


def read_error_body(body: bytes) -> ServiceRefusal:
    """`{"error": {…}}` is usual; `{"error": "…"}`, `{"detail": "…"}` and the bare object happen."""
    try:
        message = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ServiceRefusal()
    if isinstance(message, list) and message:
        message = message[0]
    if not isinstance(message, dict):
        return ServiceRefusal()
    error = message.get("error") or message.get("detail") or (message if message.get("object") == "error" else None)
    if isinstance(error, str):
        return ServiceRefusal(kind="error", message=error)
    return ServiceRefusal(kind=word(error, "type"), code=word(error, "code"), message=word(error, "message"))


def read_stream_error(error: Json) -> ServiceRefusal:
    """An error inside a stream that had begun well."""
    kind = " ".join(filter(None, (word(error, "type"), word(error, "code"))))
    status = error.get("code") if isinstance(error, dict) else None
    code = f"{status}" if isinstance(status, int) else ""
    if code in ("502", "503", "529"):
        kind = f"{kind} overloaded"
    elif code == "429":
        kind = f"{kind} rate_limit"
    elif code in ("500", "504"):
        kind = "server_error"
    return ServiceRefusal(kind=kind, message=word(error, "message") or (error if isinstance(error, str) else ""))
