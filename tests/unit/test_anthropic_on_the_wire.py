"""The Anthropic provider on the wire: what only it does, and what only shows there."""

import socket
import ssl
import subprocess
import sys
from contextlib import suppress

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.from_thread import start_blocking_portal
from anyio.streams.tls import TLSStream

from hames.domain.errors import ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.request import (
    CallBlock,
    Message,
    ModelRequest,
    ProviderNotice,
    ReasoningBlock,
    ReplyEnded,
    ResultBlock,
    TextBlock,
    TextDelta,
)
from hames.providers.anthropic.provider import AnthropicProvider
from hames.providers.retry import Patience
from hames.testing.checks.provider import asking
from hames.testing.fakes.clock import FakeClock
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.outcome import failed, heard, outcome
from hames.testing.services.server import (
    Hang,
    Pause,
    ProviderServer,
    SeenRequest,
    ServerReply,
    ServerTalk,
    raw,
    talk,
)

KEY = "sk-ant-canary-key"


def provider(url: str, *, retries: int = 2, idle_s: float = 5, connect_s: float = 2) -> AnthropicProvider:
    patience = Patience(retries=retries, idle_s=idle_s, connect_s=connect_s)
    return AnthropicProvider(base_url=url, api_key=KEY, clock=FakeClock(), patience=patience)


@pytest.mark.spec("core/uses-anthropic")
async def test_the_request_goes_to_the_messages_api_with_key_and_version() -> None:
    async with ProviderServer(ANTHROPIC, talk("Hi")) as server:
        await heard(provider(server.url + "/"), asking())
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/messages")
    assert seen.headers["x-api-key"] == KEY
    assert seen.headers["anthropic-version"] == "2026-10-21"
    assert seen.headers["content-type"] == "application/json"
    assert seen.body["stream"] is True


async def test_a_token_signs_in_instead_of_a_key() -> None:
    async with ProviderServer(ANTHROPIC, talk("Hi")) as server:
        await heard(AnthropicProvider(base_url=server.url, auth_token="tok", clock=FakeClock()), asking())
    assert server.seen[0].headers["authorization"] == "Bearer tok"
    assert "x-api-key" not in server.seen[0].headers


@pytest.mark.spec("core/stream-incremental")
async def test_text_is_told_while_the_service_still_writes() -> None:
    events = ANTHROPIC.events(talk("Hello there", cuts=2))
    async with ProviderServer(ANTHROPIC, raw(*events[:4], Hang())) as server:
        with anyio.fail_after(60):
            stream = provider(server.url).stream(asking())
            assert [event async for event in _until_text(stream)][-1] == TextDelta(block=0, text="Hello ")
            await stream.aclose()
            await server.deserted()


async def _until_text(stream):
    async for event in stream:
        yield event
        if isinstance(event, TextDelta):
            return


async def test_one_connection_serves_one_request_after_another() -> None:
    async with ProviderServer(ANTHROPIC, then=talk("Hi")) as server:
        anthropic = provider(server.url)
        for number in range(5):
            await heard(anthropic, asking(f"{number}"))
        assert server.connections == 1
        await anthropic.aclose()


async def test_many_requests_run_at_once() -> None:
    async with ProviderServer(ANTHROPIC, then=talk("Hi")) as server:
        anthropic = provider(server.url)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for number in range(30):
                    tasks.start_soon(heard, anthropic, asking(f"{number}"))
        assert len(server.seen) == 30
        await anthropic.aclose()


async def test_a_connection_the_service_dropped_meanwhile_is_made_anew() -> None:
    leaving = ServerReply(parts=tuple(ANTHROPIC.events(talk("Hi"))), leaves=True)
    async with ProviderServer(ANTHROPIC, then=leaving) as server:
        anthropic = provider(server.url, retries=0)
        for number in range(3):
            assert outcome(await heard(anthropic, asking(f"{number}"))).texts == ("Hi",)
            await server.deserted()
        assert server.connections == 3


def test_a_provider_outlives_the_event_loop_it_was_first_used_in() -> None:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(ProviderServer(ANTHROPIC, then=talk("Hi"))) as server,
    ):
        anthropic = provider(server.url, retries=0)
        for number in range(3):
            assert outcome(anyio.run(heard, anthropic, asking(f"{number}"))).texts == ("Hi",)


def _thoughtful(*, provider_name: str = "anthropic") -> ModelRequest:
    made = Call(id=CallId("t1"), name="shell", arguments="{}")
    return ModelRequest(
        model="claude-opus-5-5",
        messages=(
            Message(role="user", blocks=(TextBlock(text="Hi"),)),
            Message(
                role="assistant",
                blocks=(
                    ReasoningBlock(provider=provider_name, text="Hm", opaque={"signature": "of another talk"}),
                    CallBlock(call=made),
                ),
            ),
            Message(role="user", blocks=(ResultBlock(call=made, text="ok"),)),
        ),
    )


REFUSED_THOUGHTS = [
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
    "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest message cannot be modified.",
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`",
]


@pytest.mark.parametrize("message", REFUSED_THOUGHTS)
async def test_a_thread_goes_on_without_thoughts_the_service_will_not_take_back(message: str) -> None:
    def judge(seen: SeenRequest) -> ServerReply | ServerTalk:
        return ANTHROPIC.refusal(400, message=message) if '"signature"' in seen.raw.decode() else talk("Still here")

    async with ProviderServer(ANTHROPIC, then=judge) as server:
        events = await heard(provider(server.url), _thoughtful())
    assert outcome(events).texts == ("Still here",)
    assert isinstance(events[0], ProviderNotice)
    assert events[0].name == "reasoning_dropped"
    assert len(server.seen) == 2


async def test_a_refusal_that_thoughts_cannot_explain_is_not_tried_again() -> None:
    async with ProviderServer(ANTHROPIC, then=ANTHROPIC.refusal(400, message=REFUSED_THOUGHTS[0])) as server:
        await failed(provider(server.url), asking())
        assert len(server.seen) == 1
        await failed(provider(server.url), _thoughtful())
        assert len(server.seen) == 3


async def test_a_retired_model_is_an_error_that_names_current_ones() -> None:
    async with ProviderServer(ANTHROPIC, ANTHROPIC.refusal(404, info="ModelNotFound")) as server:
        _, error = await failed(provider(server.url), asking())
    assert "'test-model'" in str(error)
    assert "claude-sonnet-5-5" in str(error)


@pytest.mark.parametrize("header", ["retry-after", "retry-after-ms"])
async def test_the_service_is_waited_for_as_long_as_it_asks(header: str) -> None:
    clock = FakeClock()
    no = ANTHROPIC.refusal(429)
    busy = ServerReply(parts=no.parts, status=429, headers=(*no.headers, (header, "3000" if "ms" in header else "3")))
    async with ProviderServer(ANTHROPIC, busy, talk("Hi")) as server:
        await heard(AnthropicProvider(base_url=server.url, api_key=KEY, clock=clock), asking())
    assert clock.elapsed == 3.0


async def test_the_service_may_say_that_trying_again_is_no_use() -> None:
    no = ANTHROPIC.refusal(500)
    final = ServerReply(parts=no.parts, status=500, headers=(*no.headers, ("x-should-retry", "false")))
    async with ProviderServer(ANTHROPIC, then=final) as server:
        await failed(provider(server.url), asking())
    assert len(server.seen) == 1


async def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else() -> None:
    async with ProviderServer(ANTHROPIC, then=talk("trap")) as trap:
        moved = raw(status=307, headers={"location": trap.url + "/v1/messages"})
        async with ProviderServer(ANTHROPIC, then=moved) as server:
            _, error = await failed(provider(server.url), asking())
        assert "answered with a redirect" in str(error)
        assert trap.seen == []


async def test_a_slow_answer_is_patiently_read() -> None:
    events = ANTHROPIC.events(talk("slow and steady", cuts=8))
    parts = tuple(part for event in events for part in (event, Pause(seconds=0.08)))
    async with ProviderServer(ANTHROPIC, raw(*parts)) as server:
        got = outcome(await heard(provider(server.url, idle_s=0.6), asking()))
    assert got.texts == ("slow and steady",)


async def test_the_listener_may_take_its_time() -> None:
    events = ANTHROPIC.events(talk("one two three", cuts=3))
    async with ProviderServer(ANTHROPIC, raw(*events)) as server:
        with anyio.fail_after(60):
            async for event in provider(server.url, idle_s=0.1).stream(asking()):
                if isinstance(event, TextDelta):
                    await anyio.sleep(0.15)
    assert isinstance(event, ReplyEnded)


async def test_a_host_that_does_not_exist_is_named() -> None:
    _, error = await failed(provider("http://no-such-host.invalid", retries=0), asking())
    assert (error.info, error.retryable) == ("HttpConnectionFailed", True)
    assert "no-such-host.invalid" in str(error)


async def test_a_service_that_does_not_speak_tls_is_a_failed_connection() -> None:
    async with ProviderServer(ANTHROPIC, then=talk("Hi")) as server:
        _, error = await failed(provider(server.url.replace("http:", "https:"), retries=0, connect_s=1), asking())
    assert error.info == "HttpConnectionFailed"


async def test_a_certificate_nobody_vouches_for_is_not_tried_again(tmp_path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    _self_signed(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    tries = 0

    async def refuse(stream: SocketStream) -> None:
        nonlocal tries
        tries += 1
        async with stream:
            with suppress(ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream):
                await TLSStream.wrap(stream, server_side=True, ssl_context=context)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, refuse)
        _, error = await failed(provider(f"https://127.0.0.1:{port}"), asking())
        tasks.cancel_scope.cancel()
    assert "certificate" in str(error)
    assert (error.retryable, tries) == (False, 1)


def _self_signed(certificate, key) -> None:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


async def test_a_service_that_never_takes_the_connection_is_given_up() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        _, error = await failed(provider(url, retries=0, connect_s=0.2), asking())
        for one in waiting:
            one.close()
    assert (error.info, error.retryable) == ("HttpConnectionFailed", True)
    assert "did not answer within" in str(error)


async def test_a_password_in_the_address_is_not_repeated() -> None:
    _, error = await failed(provider("http://me:hunter2@127.0.0.1:9", retries=0), asking())
    assert "hunter2" not in str(error)
    assert "127.0.0.1:9" in str(error)


async def test_a_service_next_door_is_reached_whatever_proxy_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with ProviderServer(ANTHROPIC, talk("Hi")) as server:
        assert outcome(await heard(provider(server.url), asking())).texts == ("Hi",)


async def test_a_proxy_in_the_environment_is_used_for_services_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ProviderServer(ANTHROPIC, then=talk("through the proxy")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        await failed(provider("http://api.example.com", retries=0), asking())
        assert proxy.seen[0].path == "http://api.example.com/v1/messages"


async def test_warming_up_makes_no_request() -> None:
    async with ProviderServer(ANTHROPIC, talk("Hi")) as server:
        anthropic = provider(server.url)
        await anthropic.warm()
        await anthropic.warm()
        assert server.connections == 0
        assert outcome(await heard(anthropic, asking())).texts == ("Hi",)
        await anthropic.aclose()


def test_plain_http_needs_no_tls_and_the_module_no_http_until_it_is_used() -> None:
    code = "import sys, hames.providers.anthropic.provider; print({'httpx2', 'anthropic'} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.strip() == "set()"


async def test_an_error_has_no_cause_that_could_tell_more_than_it_does() -> None:
    async with ProviderServer(ANTHROPIC) as server:
        pass
    with pytest.raises(ProviderError) as error:
        await anext(provider(server.url, retries=0).stream(asking()))
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
