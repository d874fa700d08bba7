"""How services that speak like OpenAI's say no, before a stream and inside one."""

import msgspec

from hames.codecs.jsontext import text_member
from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.providers import failures
from hames.providers.failures import Refusal, Service
from hames.providers.wire import Answer


def is_stream(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "").lower()
    return not kind.startswith(("text/html", "application/json", "text/plain"))


async def refusal(answer: Answer, *, model: str, now_ms: int) -> Refusal:
    """An answer that is not a stream, as far as it can be read."""
    body = await answer.all()
    said = _error_in(body)
    return Refusal(
        status=answer.status,
        kind=text_member(said, "type"),
        code=_code(said),
        message=text_member(said, "message") or body.decode(errors="replace"),
        retry_after_s=failures.retry_after_s(answer.headers, now_ms=now_ms),
        should_retry=failures.should_retry(answer.headers),
        model=model,
    )


def judged(service: Service, refusal: Refusal, *, kind: str) -> ProviderError:
    """The error a client sees. `kind`: what came with status 200 instead of a stream."""
    if refusal.status != 200:
        return failures.error(service, refusal)
    if refusal.kind or refusal.code:  # some servers say no with a smile
        return failures.error(service, msgspec.structs.replace(refusal, status=0))
    return ProviderError(
        f"{service.address} answered with {failures.tidy(kind) or 'something'} instead of a stream; "
        f"check {service.url_variable}",
        status=200,
        info="HttpConnectionFailed",
    )


def inside(said: Json) -> Refusal:
    """An error inside a stream that had begun well."""
    kind = " ".join(filter(None, (text_member(said, "type"), _code(said))))
    status = said.get("code") if isinstance(said, dict) else None
    code = f"{status}" if isinstance(status, int) else ""
    if code in ("502", "503", "529"):
        kind = f"{kind} overloaded"
    elif code == "429":
        kind = f"{kind} rate_limit"
    elif code in ("500", "504"):
        kind = "server_error"
    return Refusal(kind=kind, message=text_member(said, "message") or (said if isinstance(said, str) else ""))


def _code(said: Json) -> str:
    return text_member(said, "code")


def _error_in(body: bytes) -> dict[str, Json]:
    """`{"error": {…}}` is usual; `{"error": "…"}`, `{"detail": "…"}` and the bare object happen."""
    try:
        said = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, dict):
        return {}
    error = said.get("error") or said.get("detail") or (said if said.get("object") == "error" else None)
    if isinstance(error, str):
        return {"message": error, "type": "error"}
    return error if isinstance(error, dict) else {}
