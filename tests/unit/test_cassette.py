"""An exchange with a model, recorded once and played back."""

from pathlib import Path

import anyio
import msgspec
import pytest

from hames.domain.errors import Misconfigured, ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call
from hames.domain.request import (
    CallBlock,
    Message,
    ModelRequest,
    ReasoningBlock,
    ResultBlock,
    TextBlock,
)
from hames.ports import Provider
from hames.providers.cassette import CassetteProvider
from hames.providers.catalogue import Catalogue
from hames.testing.checks.provider import FULL, TOOLS, asking
from hames.testing.fakes.clock import FakeClock
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.outcome import failed, heard
from hames.testing.services.server import Answer, Hang, ProviderServer, raw, talk, use

KEY = "sk-ant-canary-key"


def catalogue(url: str, path: Path, **more: str) -> Catalogue:
    environment = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url, "HAMES_RECORD": str(path), **more}
    return Catalogue(environment, clock=FakeClock())


def sonnet(models: Catalogue) -> Provider:
    return models.provider(models.find("sonnet"))


async def recorded(path: Path, *exchanges: tuple[Answer, ModelRequest]) -> list[list[object]]:
    """What was heard while it was recorded."""
    async with ProviderServer(ANTHROPIC, *(answer for answer, _ in exchanges)) as server:
        models = catalogue(server.url, path)
        told = [list(await heard(sonnet(models), request)) for _, request in exchanges]
        await models.aclose()
    return told


def playing(path: Path, request: ModelRequest, thread: str = "t1") -> ModelRequest:
    return msgspec.structs.replace(request, model=str(path), cache_key=thread)


def after_a_call(result: str) -> ModelRequest:
    made = Call(id=CallId("toolu_01"), name="shell", arguments='{"command":"ls"}')
    return ModelRequest(
        model="claude-sonnet-5-5",
        system=f"You are in {result}.",
        messages=(
            Message(role="user", blocks=(TextBlock(text="Look"),)),
            Message(
                role="assistant",
                blocks=(
                    ReasoningBlock(provider="anthropic", text=result, opaque={"signature": result}),
                    CallBlock(call=made),
                ),
            ),
            Message(role="user", blocks=(ResultBlock(call=made, text=result),)),
        ),
        tools=TOOLS,
    )


async def test_what_was_recorded_is_played_event_by_event(tmp_path: Path) -> None:
    path = tmp_path / "tapes" / "full.jsonl"
    (told,) = await recorded(path, (FULL, asking()))
    models = Catalogue({}, clock=FakeClock())
    player = models.provider(models.find(f"cassette/{path}"))
    assert await heard(player, playing(path, asking())) == told


async def test_a_reply_is_found_by_what_was_said_and_called_not_by_what_tools_answered(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    first = use("shell", command="ls")
    told = await recorded(path, (first, asking("Look")), (talk("Two files."), after_a_call("a b")))
    player = CassetteProvider()
    assert await heard(player, playing(path, asking("Look"))) == told[0]
    assert await heard(player, playing(path, after_a_call("c d e"))) == told[1]


async def test_every_thread_hears_the_cassette_from_its_beginning_and_each_reply_once(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    told = await recorded(path, (talk("First"), asking("Hi")), (talk("Second"), asking("Hi")))
    player = CassetteProvider()
    for thread in ("t1", "t2"):
        assert await heard(player, playing(path, asking("Hi"), thread)) == told[0]
        assert await heard(player, playing(path, asking("Hi"), thread)) == told[1]
        _, error = await failed(player, playing(path, asking("Hi"), thread))
        assert "no (further) reply to 'user: Hi'" in str(error)
        assert not error.retryable


async def test_what_was_not_recorded_fails_and_says_how_to_record_it(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    await recorded(path, (talk("Hi"), asking("Hi")))
    _, error = await failed(CassetteProvider(), playing(path, asking("Something else")))
    assert f"HAMES_RECORD={path}" in str(error)


def test_a_missing_cassette_fails(tmp_path: Path) -> None:
    models = Catalogue({}, clock=FakeClock())
    card = models.find(f"cassette/{tmp_path}/none.jsonl")
    with pytest.raises(Misconfigured, match="no cassette at"):
        models.provider(card)
    assert not list(tmp_path.iterdir())


async def test_a_second_cassette_that_is_missing_fails_too(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    await recorded(path, (talk("Hi"), asking("Hi")))
    models = Catalogue({}, clock=FakeClock())
    player = models.provider(models.find(f"cassette/{path}"))
    with pytest.raises(ProviderError, match="no cassette at"):
        await heard(player, playing(tmp_path / "none.jsonl", asking()))


@pytest.mark.parametrize("content", ["", "{}\n", "hello\n", '{"cassette": 1}\n{"events": 3}\n', '{"cassette": 2}\n'])
def test_what_is_no_cassette_is_said_to_be_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(content)
    with pytest.raises(Misconfigured, match="cassette"):
        CassetteProvider().load(str(path))


@pytest.mark.parametrize("value", ["true", "1", "True"])
def test_nothing_is_recorded_where_changes_are_judged(tmp_path: Path, value: str) -> None:
    path = tmp_path / "c.jsonl"
    with pytest.raises(Misconfigured, match="CI"):
        sonnet(catalogue("http://127.0.0.1:9", path, CI=value))
    assert not path.exists()


async def test_no_secret_gets_onto_a_cassette(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    leaked = f"the key is {KEY}, the token glpat-1234567890, and sk-proj-abcdefghijkl"
    async with ProviderServer(ANTHROPIC, talk(leaked), ANTHROPIC.refusal(400, message=leaked)) as server:
        models = catalogue(server.url, path, GITLAB_TOKEN="glpat-1234567890")
        await heard(sonnet(models), asking(leaked))
        await failed(sonnet(models), asking())
        await models.aclose()
    kept = path.read_text()
    assert "[redacted]" in kept
    for secret in (KEY, "glpat-1234567890", "sk-proj-abcdefghijkl"):
        assert secret not in kept


async def test_a_failure_is_recorded_and_fails_again(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    async with ProviderServer(ANTHROPIC, ANTHROPIC.refusal(404, info="ModelNotFound")) as server:
        models = catalogue(server.url, path)
        told, error = await failed(sonnet(models), asking())
        await models.aclose()
    again, played = await failed(CassetteProvider(), playing(path, asking()))
    assert again == told
    assert (str(played), played.status, played.info) == (str(error), error.status, error.info)


async def test_a_reply_that_was_stopped_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    async with ProviderServer(ANTHROPIC, raw(*ANTHROPIC.events(talk("Half"))[:4], Hang())) as server:
        models = catalogue(server.url, path)
        with anyio.fail_after(60):
            stream = sonnet(models).stream(asking())
            await anext(stream)
            await stream.aclose()
        await models.aclose()
    assert len(path.read_text().splitlines()) == 1


async def test_a_thread_that_changed_its_provider_is_one_cassette(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    async with ProviderServer(ANTHROPIC, talk("One")) as claude, ProviderServer(CHAT, talk("Two")) as local:
        models = catalogue(claude.url, path, LOCAL_BASE_URL=local.url + "/v1")
        await heard(sonnet(models), asking("1"))
        await heard(models.provider(models.find("local/m")), asking("2"))
        await models.aclose()
    lines = [msgspec.json.decode(line) for line in path.read_text().splitlines()]
    assert [line.get("provider") for line in lines] == [None, "anthropic", "local"]


async def test_a_cassette_is_not_recorded_from_a_cassette(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    await recorded(path, (talk("Hi"), asking("Hi")))
    before = path.read_bytes()
    models = Catalogue({"HAMES_RECORD": str(path)}, clock=FakeClock())
    await heard(models.provider(models.find(f"cassette/{path}")), playing(path, asking("Hi")))
    assert path.read_bytes() == before
