"""Attacks on signing in: guessing codes, using them twice, making them without being signed in, using links up."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from hames.clock_and_ids import SystemClock
from hames.server.app import Server
from hames.server.guard.token import (
    CODE_ALPHABET,
    CODE_CHARS,
    CODE_SECONDS,
    LINK_SECONDS,
    WRONG_CODES,
    Keyring,
)
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import ScriptedModel
from server_support import HandClock, http, running
from support import engine

TOKEN = "a-token-that-nobody-guesses-0123456789"
OWNER = {"authorization": f"Bearer {TOKEN}"}
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "user-agent": "Mozilla/5.0 (X11; Linux) Firefox/140"}


@asynccontextmanager
async def house(directory: Path, clock: SystemClock | HandClock | None = None) -> AsyncGenerator[Server]:
    page = directory / "page"
    page.mkdir()
    (page / "index.html").write_text("<!doctype html><title>Hames</title><div id=root>Loading</div>")
    async with (
        engine(ScriptedModel(), clock=clock or SystemClock()) as its_engine,
        running(its_engine, directory / "data", token=TOKEN, page=page) as server,
    ):
        yield server


async def invited(server: Server) -> dict[str, str]:
    async with http(server, **OWNER) as owner:
        made = await owner.post("/links", json={})
        assert made.status_code == 201
        return made.json()


async def typed(server: Server, code: str, **headers: str) -> httpx2.Response:
    async with http(server, **headers) as browser:
        return await browser.post("/sign-in", json={"code": code})


# A code


async def test_a_code_signs_one_browser_in_and_no_second_one(tmp_path: Path) -> None:
    async with house(tmp_path) as server:
        code = (await invited(server))["code"]
        async with http(server) as browser:
            assert (await browser.get("/threads")).status_code == 401
            signed = await browser.post("/sign-in", json={"code": code})
            assert signed.status_code == 200
            cookie = signed.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert TOKEN.lower() not in cookie
            assert (await browser.get("/threads")).status_code == 200
        assert (await typed(server, code)).status_code == 401


@pytest.mark.parametrize("style", [str.lower, lambda code: code.replace("-", " "), lambda code: f" {code} \n"])
async def test_a_code_may_be_typed_as_people_type(tmp_path: Path, style) -> None:
    async with house(tmp_path) as server:
        code = (await invited(server))["code"]
        assert re.fullmatch(f"[{CODE_ALPHABET}]{{4}}-[{CODE_ALPHABET}]{{4}}", code)
        assert (await typed(server, style(code))).status_code == 200


async def test_the_link_and_the_code_of_one_invitation_are_used_up_together(tmp_path: Path) -> None:
    async with house(tmp_path) as server:
        first, second = await invited(server), await invited(server)
        async with http(server) as browser:
            assert (await browser.get(second["path"], headers=BROWSER)).status_code == 303
        assert (await typed(server, second["code"])).status_code == 401
        third = await invited(server)
        assert (await typed(server, third["code"])).status_code == 200
        async with http(server) as thief:
            assert (await thief.get(third["path"], headers=BROWSER)).status_code == 401
            assert (await thief.get("/threads")).status_code == 401
        # A code is void as soon as there is a newer one. Its link is not.
        assert (await typed(server, first["code"])).status_code == 401


def test_a_code_is_void_after_ten_minutes_and_a_link_after_fifteen() -> None:
    clock = FakeClock()
    ring = Keyring(TOKEN, clock)
    made = ring.invite()
    clock.advance(CODE_SECONDS + 1)
    assert not ring.take_code(made.code)
    assert ring.take_link(made.word)
    late = ring.invite()
    clock.advance(LINK_SECONDS + 1)
    assert not ring.take_link(late.word)
    assert not ring.take_code(late.code)


def test_too_many_wrong_codes_void_the_right_one() -> None:
    ring = Keyring(TOKEN, FakeClock())
    made = ring.invite()
    for number in range(WRONG_CODES):
        assert not ring.take_code(f"WRONG{number:03d}")
    assert not ring.take_code(made.code)
    assert ring.take_link(made.word)


async def test_a_guesser_is_slowed_down_and_never_finds_it(tmp_path: Path) -> None:
    clock = HandClock()
    async with house(tmp_path, clock) as server:
        code = (await invited(server))["code"]
        answers: list[int] = []
        async with http(server) as guesser:
            for number in range(60):
                tried = await guesser.post("/sign-in", json={"code": f"AAAA-{number:04d}"})
                answers.append(tried.status_code)
                clock.now += 1
        assert set(answers) == {401, 429}
        assert answers.count(401) <= 5 + 60 / 6 + 1
        clock.now += 60
        # Fewer wrong ones than void a code came through in that minute, so it still works.
        assert answers.count(401) < WRONG_CODES
        assert (await typed(server, code)).status_code == 200


async def test_a_flood_of_guesses_locks_nobody_out_who_is_inside(tmp_path: Path) -> None:
    async with house(tmp_path) as server:
        made = await invited(server)
        async with http(server) as stranger, http(server, **OWNER) as owner, http(server) as browser:
            statuses: list[int] = []

            async def guess() -> None:
                statuses.append((await stranger.post("/sign-in", json={"code": "AAAA-AAAA"})).status_code)

            for _ in range(10):
                async with anyio.create_task_group() as tasks:
                    for _ in range(40):
                        tasks.start_soon(guess)
            assert statuses.count(429) > 300
            # The owner may change things, and a link works all the same.
            assert (await owner.post("/threads", json={})).status_code == 201
            assert (await browser.get(made["path"], headers=BROWSER)).status_code == 303
            assert (await browser.get("/threads")).status_code == 200


def test_codes_are_random_readable_and_not_kept() -> None:
    ring = Keyring(TOKEN, FakeClock())
    codes = {ring.invite().code for _ in range(2000)}
    assert len(codes) == 2000
    assert all(len(code) == CODE_CHARS and set(code) <= set(CODE_ALPHABET) for code in codes)
    assert {char for code in codes for char in code} == set(CODE_ALPHABET)
    assert not set(CODE_ALPHABET) & set("01ILOU")
    assert len(CODE_ALPHABET) ** CODE_CHARS > 2**38
    made = ring.invite()
    assert made.code not in repr(vars(ring))
    assert made.word not in repr(vars(ring))


@pytest.mark.parametrize("code", ["", "-", " ", "é\udcff", "A" * 500, "AAAA-AAAAA", "\x00" * 8, "ＡＡＡＡＡＡＡＡ"])
async def test_nonsense_is_a_wrong_code(tmp_path: Path, code: str) -> None:
    ring = Keyring(TOKEN, FakeClock())
    ring.invite()
    assert not ring.take_code(code)
    ring.link()  # an invitation without a code: the empty one does not open it
    assert not ring.take_code(code)


# Who may make one


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong-wrong-wrong-wrong"}, 401),
        ({"cookie": "hames-1=x"}, 401),
        ({**OWNER, "origin": "https://evil.example"}, 403),
        ({**OWNER, "sec-fetch-site": "cross-site"}, 403),
        ({**OWNER, "host": "evil.example"}, 421),
    ],
)
async def test_only_somebody_who_is_signed_in_makes_links_and_codes(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async with house(tmp_path) as server, http(server) as client:
        answer = await client.post("/links", json={}, headers=headers)
        assert answer.status_code == status
        assert "code" not in answer.text.replace("unicode", "")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"headers": {"origin": "https://evil.example", "content-type": "application/json"}}, 403),
        ({"headers": {"content-type": "application/x-www-form-urlencoded"}}, 415),
        ({"headers": {"content-type": "text/plain"}}, 415),
        ({"content": b'{"code": "' + b"A" * 2000 + b'"}', "headers": {"content-type": "application/json"}}, 413),
        ({"content": b"[]", "headers": {"content-type": "application/json"}}, 400),
        ({"content": b'{"code": 1}', "headers": {"content-type": "application/json"}}, 400),
        ({"method": "GET", "headers": {}}, 401),
        ({"method": "PUT", "headers": {"content-type": "application/json"}}, 401),
    ],
)
async def test_no_other_site_and_no_other_request_signs_in(tmp_path: Path, change: dict, status: int) -> None:
    async with house(tmp_path) as server:
        code = (await invited(server))["code"]
        asked = {"method": "POST", "url": "/sign-in", "content": f'{{"code": "{code}"}}'.encode(), **change}
        async with http(server) as client:
            answer = await client.request(**asked)
            assert answer.status_code == status
            assert "set-cookie" not in answer.headers
        # It was not used up by the attempt.
        assert (await typed(server, code)).status_code == 200


async def test_a_server_without_a_token_says_what_to_do_instead(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server) as client,
    ):
        for path, body in (("/links", {}), ("/sign-in", {"code": "AAAA-AAAA"})):
            answer = await client.post(path, json=body)
            assert answer.status_code == 404
            assert "hames serve --host" in answer.json()["error"]["message"]


# A link


async def test_a_used_link_opens_a_page_and_not_a_piece_of_json(tmp_path: Path) -> None:
    async with house(tmp_path) as server:
        path = (await invited(server))["path"]
        async with http(server) as first:
            assert (await first.get(path, headers=BROWSER)).status_code == 303
        async with http(server) as second:
            again = await second.get(path, headers=BROWSER)
            assert again.status_code == 401
            assert again.headers["content-type"].startswith("text/html")
            assert "<title>Hames</title>" in again.text
            assert "script-src 'self'" in again.headers["content-security-policy"]
            assert again.headers["cache-control"] == "no-store"
            assert "set-cookie" not in again.headers
            assert (await second.get("/threads")).status_code == 401


async def test_a_signed_in_browser_that_opens_its_old_link_again_just_goes_in(tmp_path: Path) -> None:
    async with house(tmp_path) as server:
        path = (await invited(server))["path"]
        async with http(server) as browser:
            for _ in range(2):
                answer = await browser.get(path, headers=BROWSER)
                assert (answer.status_code, answer.headers["location"]) == (303, "/")
            # It uses up no link that is meant for another device.
            other = (await invited(server))["path"]
            assert (await browser.get(other, headers=BROWSER)).status_code == 303
        async with http(server) as phone:
            assert (await phone.get(other, headers=BROWSER)).status_code == 303
            assert (await phone.get("/threads")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"user-agent": "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"},
        {"user-agent": "facebookexternalhit/1.1"},
        {"user-agent": "WhatsApp/2.23.20.0"},
        {"user-agent": "TelegramBot (like TwitterBot)"},
        {"user-agent": "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)"},
        {"user-agent": "Mozilla/5.0 SkypeUriPreview Preview/0.5"},
        {**BROWSER, "sec-purpose": "prefetch;prerender"},
        {**BROWSER, "purpose": "prefetch"},
        {**BROWSER, "x-moz": "prefetch"},
    ],
)
async def test_a_preview_does_not_use_a_link_up(tmp_path: Path, headers: dict[str, str]) -> None:
    async with house(tmp_path) as server:
        path = (await invited(server))["path"]
        async with http(server) as bot:
            for method in ("GET", "HEAD"):
                looked = await bot.request(method, path, headers=headers)
                assert looked.status_code == 200
                assert "set-cookie" not in looked.headers
            assert (await bot.head(path, headers=BROWSER)).status_code == 200
            assert (await bot.get("/threads")).status_code == 401
        async with http(server) as browser:
            assert (await browser.get(path, headers=BROWSER)).status_code == 303
            assert (await browser.get("/threads")).status_code == 200
