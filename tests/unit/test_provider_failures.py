"""Failures in one sentence, and no secret in any."""

import pytest

from hames.domain.errors import ErrorInfo
from hames.providers.failures import HIDDEN, ServiceInfo, ServiceRefusal, provider_error, redact, tidy

SERVICE = ServiceInfo(
    name="the Anthropic API",
    key_variable="ANTHROPIC_API_KEY",
    url="https://api.example.com",
    url_variable="ANTHROPIC_BASE_URL",
    models=("claude-a", "claude-b"),
    secrets=("my-very-own-key",),
)


@pytest.mark.parametrize(
    ("refusal", "info", "retryable", "words"),
    [
        (ServiceRefusal(status=401), "Unauthorized", False, "set ANTHROPIC_API_KEY"),
        (ServiceRefusal(status=403, message="no access"), "Unauthorized", False, "no access"),
        (
            ServiceRefusal(status=404, kind="not_found_error", message="model: claude-x", model="claude-x"),
            "ModelNotFound",
            False,
            "'claude-x' (any more); use claude-a, claude-b",
        ),
        (ServiceRefusal(status=404, message="<html>"), "HttpConnectionFailed", False, "check ANTHROPIC_BASE_URL"),
        (ServiceRefusal(status=400, message="max_tokens: too small"), "BadRequest", False, "max_tokens: too small"),
        (
            ServiceRefusal(status=400, message="prompt is too long: 210000 tokens > 200000 maximum"),
            "ContextWindowExceeded",
            False,
            "compact it",
        ),
        (
            ServiceRefusal(status=400, message="input length and `max_tokens` exceed context limit: 190000 + 20000"),
            "ContextWindowExceeded",
            False,
            "compact it",
        ),
        (ServiceRefusal(status=413), "ContextWindowExceeded", False, "compact it"),
        (
            ServiceRefusal(status=400, message="Your credit balance is too low"),
            "UsageLimitExceeded",
            False,
            "credit balance",
        ),
        (ServiceRefusal(status=402, kind="billing_error"), "UsageLimitExceeded", False, "limit is used up"),
        (
            ServiceRefusal(status=429, kind="rate_limit_error"),
            "UsageLimitExceeded",
            True,
            "limits the number of requests",
        ),
        (ServiceRefusal(status=429, retry_after_s=12.3), "UsageLimitExceeded", True, "in 12 s"),
        (
            ServiceRefusal(status=429, kind="rate_limit_error", code="enforced_spend_limit_reached"),
            "UsageLimitExceeded",
            False,
            "limit is used up",
        ),
        (ServiceRefusal(status=529), "ServerOverloaded", True, "overloaded"),
        (ServiceRefusal(kind="overloaded_error"), "ServerOverloaded", True, "overloaded"),
        (ServiceRefusal(kind="api_error", message="boom"), "InternalServerError", True, "boom"),
        (ServiceRefusal(status=500), "InternalServerError", True, "status 500"),
        (ServiceRefusal(status=504), "InternalServerError", True, "status 504"),
        (ServiceRefusal(status=408), "Other", True, "status 408"),
        (ServiceRefusal(status=409), "Other", True, "status 409"),
        (ServiceRefusal(status=307), "HttpConnectionFailed", False, "answered with a redirect"),
        (ServiceRefusal(status=418, message="teapot"), "BadRequest", False, "teapot"),
        (ServiceRefusal(status=500, should_retry=False), "InternalServerError", False, "status 500"),
        (ServiceRefusal(status=400, message="odd", should_retry=True), "BadRequest", True, "odd"),
    ],
)
def test_every_refusal_says_what_to_do(refusal: ServiceRefusal, info: ErrorInfo, retryable: bool, words: str) -> None:
    failure = provider_error(SERVICE, refusal)
    assert (failure.info, failure.retryable) == (info, retryable)
    assert failure.status == (refusal.status or None)
    assert words in str(failure)
    assert not str(failure).endswith(".")


@pytest.mark.parametrize(
    "said",
    [
        "you sent x-api-key: my-very-own-key and that is wrong",
        "key my-very-own-key",
        '{"x-api-key": "sk-ant-api03-abcdefghijkl"}',
        "Authorization: Bearer abc.def-ghi",
        "authorization='topsecret'",
        "api_key=topsecret&x=1",
        "sk-proj-1234567890abcdef",
    ],
)
def test_no_key_leaves_in_an_error(said: str) -> None:
    text = str(provider_error(SERVICE, ServiceRefusal(status=400, message=said)))
    assert HIDDEN in text
    for secret in ("my-very-own-key", "sk-ant", "abc.def", "topsecret", "sk-proj"):
        assert secret not in text


def test_ordinary_words_are_not_hidden() -> None:
    said = "messages.3: the bearer of this token task-list must skip api keys"
    assert redact(said, ()) == said


def test_what_the_service_says_is_one_bounded_line_without_control_characters() -> None:
    text = tidy("a\n\n b\x1b[31m\x00" + "x" * 5000)
    assert text.startswith("a b [31m x")
    assert len(text) < 500
    assert text.isprintable()
