"""What went wrong with a model service, as one sentence that says what to do.

Each dialect makes a `ServiceRefusal` of what its service answered, and gets the error a client sees.
Services may echo what they were sent, so keys are redacted here.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from hames.domain.errors import ErrorInfo, ProviderError
from hames.domain.value import Value

SAID_CHARS = 400
HIDDEN = "[redacted]"

RETRIED_STATUSES = frozenset({408, 409, 425, 429})
"""And every 5xx."""

_SECRETS = re.compile(
    r"(?i)(?:x-api-key|api[_-]?key|authorization)[\"']?\s*[:=]\s*[\"']?(?:Bearer\s+)?[^\s\"',}]+"
    r"|\bsk-[\w*.-]{3,}\w|\b[\w-]{2,}\*{3,}[\w-]*|\bBearer\s+(?=[^\s\"',}]*[\d._-])[^\s\"',}]{8,}"
)
_TOO_LONG = re.compile(
    r"(?i)prompt is too long|exceed\w* (?:the )?context|context (?:window|length|limit|size)|too many tokens"
)
_OUT_OF_MONEY = re.compile(
    r"(?i)credit balance|spend(?:ing)? limit|billing|usage limit|insufficient_quota|monthly limit"
)
_NO_MODEL = re.compile(r"(?i)\bmodel\b")


class ServiceInfo(Value):
    """Whose failures these are, in words for people."""

    name: str
    key_variable: str
    url: str
    url_variable: str
    provider: str = ""
    """What it is called in `provider/model`."""
    models: tuple[str, ...] = ()
    """Worth suggesting when the one asked for is gone."""
    secrets: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The URL as people may see it: without a name and password in it."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def no_key(title: str, provider: str, variable: str) -> str:
    """What to do about a key that is missing."""
    return (
        f"no key for {title}: run `hames setup` or `hames login {provider}`, or set {variable}"
        " (`hames demo` needs no key)"
    )


def no_address(provider: str, variable: str) -> str:
    """What to do about an address that is missing."""
    return (
        f"the address of the model server {provider!r} is not set: run `hames setup --provider {provider}`, or write"
        f' base_url = "http://127.0.0.1:8080/v1" below [providers.{provider}] in config.toml, or set {variable}'
    )


class ServiceRefusal(Value):
    """An answer that is an error. `status` 0: it came inside a stream that had begun well."""

    status: int = 0
    kind: str = ""
    code: str = ""
    message: str = ""
    retry_after_s: float | None = None
    should_retry: bool | None = None
    model: str = ""


def provider_error(service: ServiceInfo, refusal: ServiceRefusal) -> ProviderError:
    """The error a client sees."""
    info, retryable, sentence = _classify(service, refusal)
    if refusal.should_retry is not None and info not in ("UsageLimitExceeded", "ContextWindowExceeded"):
        retryable = refusal.should_retry
    return ProviderError(
        sentence,
        retryable=retryable,
        status=refusal.status or None,
        info=info,
        retry_after_s=refusal.retry_after_s,
    )


def key_advice(provider: str, key_variable: str) -> str:
    login = f"run `hames login {provider}`, or " if provider else ""
    return f"{login}set {key_variable} to a valid one"


def _classify(service: ServiceInfo, refusal: ServiceRefusal) -> tuple[ErrorInfo, bool, str]:
    status, name = refusal.status, service.name
    said = tidy(redact(refusal.message[: SAID_CHARS * 4], service.secrets))
    # The service's own words, if there are any. A web page is not meant for people to read here.
    why = f": {said}" if said and not said.startswith("<") else ""
    kind = f"{refusal.kind} {refusal.code}"
    is_spent = status in (0, 400, 403, 429) and _OUT_OF_MONEY.search(f"{kind} {said}")
    if status == 402 or "billing" in kind or "spend_limit" in kind or is_spent:
        return "UsageLimitExceeded", False, f"{name} says that the account's limit is used up: {said}"
    is_too_long = status == 413 or (status in (0, 400) and _TOO_LONG.search(said))
    if is_too_long or "context_length" in kind or "exceed_context" in kind:
        sentence = f"the conversation is too long for the model; compact it or start a new thread: {said}"
        return "ContextWindowExceeded", False, sentence
    if status == 401 or "authentication" in kind:
        advice = key_advice(service.provider, service.key_variable)
        return "Unauthorized", False, f"{name} refused the key; {advice}{why}"
    if status == 403:
        return "Unauthorized", False, f"{name} does not allow this for the key in {service.key_variable}: {said}"
    if status == 404 and refusal.kind and _NO_MODEL.search(said):
        current = ", ".join(service.models) or "another one"
        return "ModelNotFound", False, f"{name} has no model {refusal.model!r} (any more); use {current}{why}"
    if status == 404 and refusal.kind == "invalid_request_error":
        return "BadRequest", False, f"{name} did not find something that the request names: {said}"
    if status == 404:
        sentence = f"nothing answers at {service.address}; check {service.url_variable}{why}"
        return "HttpConnectionFailed", False, sentence
    if status == 429 or "rate_limit" in kind:
        wait = f" in {refusal.retry_after_s:.0f} s" if refusal.retry_after_s else ""
        return "UsageLimitExceeded", True, f"{name} limits the number of requests; try again{wait or ' later'}: {said}"
    if status == 529 or "overloaded" in kind or "slow_down" in kind:
        return "ServerOverloaded", True, f"{name} is overloaded; try again later{why}"
    if status >= 500 or (status == 0 and kind.strip() in ("api_error", "timeout_error", "server_error")):
        return "InternalServerError", True, f"{name} failed with status {status or 500}; try again later: {said}"
    if "policy" in kind:
        return "Refusal", False, f"{name} refused to answer this: {said}"
    if status in RETRIED_STATUSES:
        return "Other", True, f"{name} could not process the request (status {status}); try again: {said}"
    if 300 <= status < 400:
        return (
            "HttpConnectionFailed",
            False,
            f"{service.address} answered with a redirect; check {service.url_variable}",
        )
    return "BadRequest", False, f"{name} refused the request: {said}"


def malformed(why: str) -> ProviderError:
    """The error for a stream that cannot be decoded."""
    sentence = f"the model service sent a stream that cannot be read: {why}"
    return ProviderError(sentence, retryable=True, info="ResponseStreamDisconnected")


def cut_off(*, begun: bool) -> ProviderError:
    """The error for a stream that ended before the reply did."""
    what = "ended before the answer did" if begun else "was empty"
    sentence = f"the model service's stream {what}; try again"
    return ProviderError(sentence, retryable=True, info="ResponseStreamDisconnected")


def tidy(text: str) -> str:
    """One line of bounded length, without control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: SAID_CHARS * 4]).split()).rstrip(".")
    return line if len(line) <= SAID_CHARS else line[:SAID_CHARS] + "…"


def redact(text: str, secrets: Sequence[str]) -> str:
    """A text without our keys, or anything that looks like a key."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    return _SECRETS.sub(HIDDEN, text)


def retry_after_s(headers: Mapping[str, str], *, now_ms: int) -> float | None:
    """How long the service asks to wait: milliseconds, seconds or a date. Nonsense is no answer."""
    try:
        return _positive(float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    said = headers.get("retry-after", "")
    try:
        return _positive(float(said))
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime  # slow to import, and dates are rare

    try:
        return _positive(parsedate_to_datetime(said).timestamp() - now_ms / 1000)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _positive(seconds: float) -> float | None:
    return seconds if 0 < seconds < float("inf") else None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    return {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
