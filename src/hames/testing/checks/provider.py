"""What every provider promises, checked against a service that misbehaves.

A provider with a service behind it brings a `Stage` and passes every check of `CHECKS`;
one without (a script) passes `check_stream` and `check_stopping`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Protocol, runtime_checkable

import anyio
from anyio.lowlevel import checkpoint

from hames.domain.errors import ErrorInfo
from hames.domain.ids import CallId
from hames.domain.items import Call, Picture
from hames.domain.request import (
    CallBlock,
    Message,
    ModelRequest,
    OfferedTool,
    PictureBlock,
    ReasoningBlock,
    ResultBlock,
    SearchBlock,
    StopReason,
    TextBlock,
    ToolCallEnded,
)
from hames.domain.usage import Usage
from hames.domain.value import Value
from hames.ports import Provider
from hames.testing.services.outcome import LIMIT_SECONDS, Outcome, failed, heard, outcome, said_and_done
from hames.testing.services.server import (
    Answer,
    Close,
    Dialect,
    Drip,
    Hang,
    Pause,
    ProviderServer,
    Reset,
    ServerReply,
    ServerTalk,
    Thoughts,
    Use,
    Words,
    raw,
)

STOPS = 80
"""Scheduler passes after which a stream is stopped, one by one; a reply needs fewer."""


class ProviderStage(Value):
    """A dialect, and how to make a provider for a service at a URL.

    The provider retries twice and sleeps on a clock that takes no time. An impatient one
    retries never and gives up on silence after a fraction of a second.
    """

    dialect: Dialect
    make: Callable[[str], Provider]
    impatient: Callable[[str], Provider]


def asking(text: str = "Hello?", *, tools: bool = True, **options: str) -> ModelRequest:
    """A plain request. The words make it one of a kind, so that no two share a script."""
    return ModelRequest(
        model="test-model",
        system="Be brief.",
        messages=(Message(role="user", blocks=(TextBlock(text=text),)),),
        tools=TOOLS if tools else (),
        options=options,
    )


SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = (OfferedTool(name="shell", description="Run a command", schema=SCHEMA),)
FULL = ServerTalk(
    parts=(
        Thoughts(text="Let me see: äöü 🐎…", signature="sig/+=="),
        Words(text="I will look — ‘now’."),
        Use(name="shell", arguments='{"command": "ls \\"a b\\" \\u00e4", "n": [1, 2.50, null]}', id="toolu_01"),
        Use(name="shell", arguments='{"command": "true"}', id="toolu_02"),
    ),
    stop="tools",
    usage=Usage(input_tokens=5, output_tokens=70, thinking_tokens=30, cache_read_tokens=900, cache_write_tokens=40),
)


def expected(talk: ServerTalk) -> Outcome:
    """What a provider must make of a reply."""
    return Outcome(
        texts=tuple(part.text for part in talk.parts if isinstance(part, Words)),
        thoughts=tuple(part.text for part in talk.parts if isinstance(part, Thoughts)),
        calls=tuple(
            Call(id=CallId(part.id), name=part.name, arguments=part.arguments)
            for part in talk.parts
            if isinstance(part, Use)
        ),
        usage=talk.usage,
        reason=talk.stop,
    )


def assert_same(got: Outcome, wanted: Outcome) -> None:
    for name in ("texts", "thoughts", "calls", "usage", "reason"):
        assert getattr(got, name) == getattr(wanted, name), name


@asynccontextmanager
async def _at(
    stage: ProviderStage, *answers: Answer, then: Answer | None = None
) -> AsyncGenerator[tuple[ProviderServer, Provider]]:
    async with ProviderServer(stage.dialect, *answers, then=then) as server:
        provider = stage.make(server.url)
        yield server, provider
        if isinstance(provider, AsyncResource):
            await provider.aclose()
        with anyio.fail_after(LIMIT_SECONDS):
            await server.deserted()  # whatever happened, no connection was left behind


@runtime_checkable
class AsyncResource(Protocol):
    async def aclose(self) -> None: ...


async def check_everything_a_reply_can_hold(stage: ProviderStage) -> None:
    async with _at(stage, FULL) as (_, provider):
        got = outcome(await heard(provider, asking()))
    assert_same(got, expected(FULL))
    assert len(got.opaques) == 1
    assert got.opaques[0] is not None


async def check_bytes_may_be_cut_anywhere(stage: ProviderStage) -> None:
    data = b"".join(stage.dialect.events(FULL))
    drips: list[Answer] = [raw(Drip(data=data, size=size)) for size in (1, 2, 3, 7, 64)]
    async with _at(stage, *drips) as (_, provider):
        for number in range(len(drips)):
            assert_same(outcome(await heard(provider, asking(f"{number}"))), expected(FULL))


async def check_whatever_the_standard_calls_an_event_is_one(stage: ProviderStage) -> None:
    events = stage.dialect.events(FULL)
    data = b"".join(events)
    manners = {
        "CRLF": data.replace(b"\n", b"\r\n"),
        "CR": data.replace(b"\n", b"\r"),
        "no space after the colon": data.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
        "a mark of the byte order": b"\xef\xbb\xbf" + data,
        "comments": b": hello\n\n" + b":\n\n".join(events),
        "fields nobody knows": data.replace(b"data: ", b"id: 7\nretry: 10\ndata: "),
        "data over several lines": data.replace(b"data: {", b"data: {\ndata: "),
        "no blank line at the end": data.rstrip(b"\n"),
    }
    async with _at(stage, *map(raw, manners.values())) as (_, provider):
        for name in manners:
            assert_same(outcome(await heard(provider, asking(name))), expected(FULL))


async def check_an_event_without_end_is_given_up(stage: ProviderStage) -> None:
    endless = raw(b"data: {", *(b"x" * 1_000_000 for _ in range(11)), Hang())
    async with _at(stage, endless) as (server, _):
        _, error = await failed(stage.impatient(server.url), asking())
    assert error.info == "ResponseStreamDisconnected"


async def check_arguments_are_the_models_own_words(stage: ProviderStage) -> None:
    """Valid or not, an object or not: judging them is not the provider's."""
    uses = tuple(
        Use(name="shell", arguments=arguments, id=f"toolu_{number}")
        for number, arguments in enumerate(("[1]", '"ls"', "null", '{"command": "ls"} and more', '{"a": 1, "a": 2}'))
    )
    async with _at(stage, ServerTalk(parts=uses, stop="tools", cuts=2)) as (_, provider):
        got = outcome(await heard(provider, asking()))
    assert [call.arguments for call in got.calls] == [use.arguments for use in uses]


async def check_a_service_that_asks_for_too_long_a_wait_is_not_waited_for(stage: ProviderStage) -> None:
    no = stage.dialect.refusal(429)
    for header, value in (("retry-after", "1000000000"), ("retry-after", "Fri, 31 Dec 2199 23:59:59 GMT")):
        absurd = ServerReply(parts=no.parts, status=429, headers=(*no.headers, (header, value)))
        async with _at(stage, then=absurd) as (server, provider):
            _, error = await failed(provider, asking())
            assert error.retryable
            assert len(server.seen) == 1, value


async def check_every_ending(stage: ProviderStage) -> None:
    reasons: tuple[StopReason, ...] = ("end", "max_tokens", "refusal", "unknown")
    talks = [ServerTalk(parts=(Words(text="So."),), stop=reason) for reason in reasons]
    async with _at(stage, *talks) as (_, provider):
        for reason in reasons:
            assert outcome(await heard(provider, asking(reason))).reason == reason


async def check_many_calls(stage: ProviderStage) -> None:
    uses = tuple(Use(name="shell", arguments=f'{{"command": "echo {n}"}}', id=f"toolu_{n}") for n in range(200))
    async with _at(stage, ServerTalk(parts=uses, stop="tools", cuts=1)) as (_, provider):
        got = outcome(await heard(provider, asking()))
    assert [call.id for call in got.calls] == [use.id for use in uses]


async def check_what_can_pass_is_tried_again(stage: ProviderStage) -> None:
    say = ServerTalk(parts=(Words(text="At last."),))
    for status in (408, 409, 429, 500, 502, 503, 504, 529):
        no = stage.dialect.refusal(status)
        async with _at(stage, no, no, say) as (server, provider):
            got = outcome(await heard(provider, asking()))
            assert got.texts == ("At last.",), status
            assert got.notices == ("retry", "retry"), status
            assert len(server.seen) == 3, status
            assert len({seen.raw for seen in server.seen}) == 1, "a repeated request is the same request"


async def check_patience_ends(stage: ProviderStage) -> None:
    async with _at(stage, then=stage.dialect.refusal(503)) as (server, provider):
        _, error = await failed(provider, asking())
    assert error.retryable
    assert error.status == 503
    assert len(server.seen) == 3


async def check_what_cannot_pass_is_not_tried_again(stage: ProviderStage) -> None:
    hopeless: tuple[tuple[int, ErrorInfo], ...] = (
        (400, "BadRequest"),
        (400, "ContextWindowExceeded"),
        (401, "Unauthorized"),
        (403, "Unauthorized"),
        (404, "ModelNotFound"),
        (413, "ContextWindowExceeded"),
        (429, "UsageLimitExceeded"),
    )
    for status, info in hopeless:
        async with _at(stage, then=stage.dialect.refusal(status, info=info)) as (server, provider):
            _, error = await failed(provider, asking())
            assert (error.status, error.info, error.retryable) == (status, info, False), status
            assert len(server.seen) == 1, status


async def check_a_connection_that_breaks_before_the_answer_is_tried_again(stage: ProviderStage) -> None:
    say = ServerTalk(parts=(Words(text="At last."),))
    for fault in (raw(Reset(), status=0), raw(Close(), status=0), raw(Reset()), raw(Close()), raw()):
        async with _at(stage, fault, say) as (_, provider):
            assert outcome(await heard(provider, asking())).texts == ("At last.",), fault


async def check_an_answer_that_breaks_is_a_failure_and_no_call_is_half_told(stage: ProviderStage) -> None:
    events = stage.dialect.events(FULL)
    whole = expected(FULL).calls
    for end in range(stage.dialect.opening + 1, len(events) - 2):
        for fault in (Reset(), Close()):
            async with _at(stage, raw(b"".join(events[:end]), fault)) as (server, provider):
                told, error = await failed(provider, asking())
            assert error.retryable
            assert error.info == "ResponseStreamDisconnected"
            calls = tuple(event.call for event in told if isinstance(event, ToolCallEnded))
            assert calls == whole[: len(calls)]
            assert len(server.seen) == 1, "nothing is tried again once the answer has begun"


async def check_an_error_inside_the_stream(stage: ProviderStage) -> None:
    events = stage.dialect.events(FULL)
    async with _at(stage, raw(*events[:7], stage.dialect.broken())) as (_, provider):
        told, error = await failed(provider, asking())
    assert told
    assert (error.info, error.retryable) == ("ServerOverloaded", True)


async def check_silence_is_not_waited_for(stage: ProviderStage) -> None:
    events = stage.dialect.events(FULL)
    pings = tuple(part for _ in range(200) for part in (stage.dialect.ping(), Pause(seconds=0.01)))
    silent = (raw(Hang(), status=0), raw(Hang()), raw(*events[:7], Hang()), raw(*events[:7], *pings))
    for fault in silent:
        async with _at(stage, then=fault) as (server, _):
            _, error = await failed(stage.impatient(server.url), asking())
        assert error.retryable
        assert error.info == "ResponseStreamDisconnected"


async def check_a_page_instead_of_a_stream(stage: ProviderStage) -> None:
    page = raw(b"<html><body>Sign in</body></html>", headers={"content-type": "text/html"})
    async with _at(stage, then=page) as (_, provider):
        _, error = await failed(provider, asking())
    assert not error.retryable


async def check_nobody_there(stage: ProviderStage) -> None:
    async with ProviderServer(stage.dialect) as server:
        pass
    _, error = await failed(stage.make(server.url), asking())
    assert error.info == "HttpConnectionFailed"


async def check_secrets_stay(stage: ProviderStage) -> None:
    """The service echoes what it was sent, key and all."""
    for status in (400, 401, 403, 404, 429, 500):
        async with _at(stage, then=_echo(stage.dialect, status)) as (server, provider):
            _, error = await failed(provider, asking())
            sent = server.seen[0].headers
            key = sent.get("x-api-key") or sent["authorization"].removeprefix("Bearer ")
            assert key not in f"{error} {error!r} {error.__cause__} {error.__context__ if error.__cause__ else ''}"


def _echo(dialect: Dialect, status: int) -> Answer:
    return lambda seen: dialect.refusal(status, message=f"headers were {seen.headers}")


async def check_a_history_that_has_seen_everything_is_accepted(stage: ProviderStage) -> None:
    """After interrupts, crashes, failed tools and another provider, the next request is a valid one."""
    say = ServerTalk(parts=(Words(text="Fine."),))
    async with _at(stage, FULL, say) as (server, provider):
        events = await heard(provider, asking())
        request = ModelRequest(
            model="test-model",
            messages=(*_odd_history(), *said_and_done(provider.name, events)),
            tools=TOOLS,
        )
        assert outcome(await heard(provider, request)).texts == ("Fine.",)
        body = server.seen[-1].raw.decode()
    assert "interrupted" in body
    assert "of another provider" not in body


def _odd_history() -> tuple[Message, ...]:
    first = Call(id=CallId("call.1/ü"), name="shell", arguments='{"command": "ls"}')
    twin = Call(id=CallId("call.1/ü"), name="shell", arguments='{"command": "pwd"}')
    broken = Call(id=CallId(""), name="shell", arguments='{"command": "ls')
    listed = Call(id=CallId("call_1__"), name="no such tool", arguments="[1]")
    picture = Picture(media_type="image/png", base64="iVBORw0KGgo=")
    return (
        Message(role="user", blocks=(TextBlock(text="Look"), TextBlock(text=" \n"), PictureBlock(picture=picture))),
        Message(
            role="assistant",
            blocks=(
                ReasoningBlock(provider="elsewhere", text="a thought of another provider", opaque={"signature": "x"}),
                SearchBlock(provider="elsewhere", opaque=["a search of another provider"]),
                TextBlock(text=""),
                CallBlock(call=first),
                CallBlock(call=twin),
                CallBlock(call=broken),
            ),
        ),
        Message(
            role="user",
            blocks=(
                TextBlock(text="(said while it ran)"),
                ResultBlock(call=first, text="", pictures=(picture,)),
                ResultBlock(call=twin, text="", failed=True),
                ResultBlock(call=broken, text="interrupted; it may have run", failed=True),
            ),
        ),
        Message(role="assistant", blocks=(CallBlock(call=listed),)),
        Message(
            role="user", blocks=(ResultBlock(call=listed, text=""), PictureBlock(url="data:image/png;base64,AA=="))
        ),
        Message(role="assistant", blocks=(TextBlock(text="Half a sen"),)),
        Message(role="user", blocks=(TextBlock(text="Go on"), PictureBlock(url="https://example.com/a.png"))),
    )


async def check_being_stopped_anywhere(stage: ProviderStage) -> None:
    events = stage.dialect.events(FULL)
    async with _at(stage, then=raw(*events)) as (_, provider):
        await check_stopping(provider, asking())
        assert_same(outcome(await heard(provider, asking())), expected(FULL))


CHECKS: tuple[Callable[[ProviderStage], Awaitable[None]], ...] = (
    check_everything_a_reply_can_hold,
    check_bytes_may_be_cut_anywhere,
    check_whatever_the_standard_calls_an_event_is_one,
    check_an_event_without_end_is_given_up,
    check_arguments_are_the_models_own_words,
    check_a_service_that_asks_for_too_long_a_wait_is_not_waited_for,
    check_every_ending,
    check_many_calls,
    check_what_can_pass_is_tried_again,
    check_patience_ends,
    check_what_cannot_pass_is_not_tried_again,
    check_a_connection_that_breaks_before_the_answer_is_tried_again,
    check_an_answer_that_breaks_is_a_failure_and_no_call_is_half_told,
    check_an_error_inside_the_stream,
    check_silence_is_not_waited_for,
    check_a_page_instead_of_a_stream,
    check_nobody_there,
    check_secrets_stay,
    check_a_history_that_has_seen_everything_is_accepted,
    check_being_stopped_anywhere,
)


async def check_provider(provider: Provider, request: ModelRequest) -> Outcome:
    """What every provider promises, whatever it stands on. Raises `AssertionError`; returns its reply.

    One that asks a service over HTTP must also pass `CHECKS`.
    """
    reply = await check_stream(provider, request)
    await check_stopping(provider, request)
    return reply


async def check_stream(provider: Provider, request: ModelRequest) -> Outcome:
    """One reply, lawful from its first event to its last."""
    return outcome(await heard(provider, request))


async def check_stopping(provider: Provider, request: ModelRequest) -> None:
    """Stopped after any number of scheduler passes, or closed after any number of events, it stops at once."""
    for passes in range(STOPS):
        if await _stopped_after(passes, provider, request):
            break
    length = len(await heard(provider, request))
    for taken in range(length):
        with anyio.fail_after(LIMIT_SECONDS):
            stream = provider.stream(request)
            for _ in range(taken):
                await anext(stream)
            await stream.aclose()


async def _stopped_after(passes: int, provider: Provider, request: ModelRequest) -> bool:
    """Whether the reply was over before it was stopped."""
    over = False

    async def listen() -> None:
        nonlocal over
        async with aclosing(provider.stream(request)) as stream:
            async for _ in stream:
                pass
        over = True

    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            for _ in range(passes):
                await checkpoint()
            tasks.cancel_scope.cancel()
    return over
