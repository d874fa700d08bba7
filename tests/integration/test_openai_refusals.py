"""What `/v1` refuses before it looks at a request, as OpenAI's own package reads it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest

from hames.clock_and_ids import SystemClock
from hames.server.app import Server
from hames.server.guard.named_tokens import TokenFile
from hames.testing.fakes.model import ScriptedModel
from server_support import running
from support import engine

OWNER = "the-owner-token-0123456789"
MESSAGES: Any = [{"role": "user", "content": "x"}]
Call = Callable[[openai.AsyncOpenAI], Any]


@asynccontextmanager
async def serving(directory: Path) -> AsyncGenerator[tuple[Server, str]]:
    """A server that wants a token, and the token of an observer."""
    state = directory / "state"
    observer = TokenFile(state).add("watcher", "observer", now_ms=0)
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as here,
        running(here, directory / "data", token=OWNER, tokens_dir=state) as server,
    ):
        with anyio.fail_after(60):
            yield server, observer


async def refusal(server: Server, key: str, call: Call) -> openai.APIStatusError:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await call(client)
    error = caught.value
    assert isinstance(error.body, dict)
    assert set(error.body) == {"message", "type", "param", "code"}
    assert error.body["message"]
    return error


CALLS: dict[str, Call] = {
    "chat": lambda client: client.chat.completions.create(model="hames", messages=MESSAGES),
    "responses": lambda client: client.responses.create(model="hames", input="x"),
    "models": lambda client: client.models.list(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_wrong_key_is_an_authentication_error(tmp_path: Path, call: str) -> None:
    async with serving(tmp_path) as (server, _):
        error = await refusal(server, "wrong", CALLS[call])
        assert isinstance(error, openai.AuthenticationError)
        assert (error.type, error.code) == ("invalid_request_error", "invalid_api_key")


@pytest.mark.parametrize("call", ["chat", "responses"])
async def test_an_observer_starts_nothing_and_reads_why(tmp_path: Path, call: str) -> None:
    async with serving(tmp_path) as (server, observer):
        error = await refusal(server, observer, CALLS[call])
        assert isinstance(error, openai.PermissionDeniedError)
        assert error.type == "permission_error"
        assert "observer" in error.message


PATHS: list[tuple[Call, str]] = [
    (lambda client: client.embeddings.create(model="hames", input="x"), "POST /v1/embeddings"),
    (lambda client: client.completions.create(model="hames", prompt="x"), "POST /v1/completions"),
    (lambda client: client.responses.input_items.list("resp_x"), "GET /v1/responses/resp_x/input_items"),
    (lambda client: client.files.list(), "GET /v1/files"),
]


@pytest.mark.parametrize(("call", "path"), PATHS)
async def test_a_path_that_is_not_there_is_named(tmp_path: Path, call: Call, path: str) -> None:
    async with serving(tmp_path) as (server, _):
        error = await refusal(server, OWNER, call)
        assert isinstance(error, openai.NotFoundError)
        assert (error.code, path in error.message) == ("unknown_url", True)


async def test_a_method_a_size_and_a_type_that_are_not_taken_are_told_in_the_same_shape(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _):
        calls: list[tuple[int, Call]] = [
            (405, lambda client: client.get("/chat/completions", cast_to=object)),
            (413, lambda client: client.responses.create(model="hames", input="x" * (33 << 20))),
            (
                415,
                lambda client: client.chat.completions.create(
                    model="hames", messages=MESSAGES, extra_headers={"content-type": "text/plain"}
                ),
            ),
        ]
        for status, call in calls:
            error = await refusal(server, OWNER, call)
            assert (error.status_code, error.type) == (status, "invalid_request_error")


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"n": 2}, "n", "unsupported_value"),
        ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
        ({"stream": "yes"}, "stream", "invalid_value"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"tools": 5}, "tools", "invalid_value"),
    ],
)
async def test_the_code_of_a_refusal_says_whether_the_parameter_or_its_value_is_wrong(
    tmp_path: Path, more: dict[str, Any], param: str, code: str
) -> None:
    async with serving(tmp_path) as (server, _):
        error = await refusal(
            server,
            OWNER,
            lambda client: client.post(
                "/chat/completions", cast_to=object, body={"model": "hames", "messages": MESSAGES, **more}
            ),
        )
        assert (error.status_code, error.param, error.code) == (400, param, code)
