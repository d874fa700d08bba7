"""What travels compressed: the page's files as they were built, large answers when a client takes gzip."""

import gzip
import hashlib
from pathlib import Path

import pytest

from hames.clock_and_ids import SystemClock
from hames.server.http.compression import best_encoding, etag_matches
from hames.testing.fakes.model import ScriptedModel, say
from server_support import events, http, running
from support import created, engine, whole_turn

SCRIPT = b"export const words = 'the same words again and again';\n" * 400


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A built page: the compressed files lie beside the plain ones."""
    assets = tmp_path / "page" / "assets"
    assets.mkdir(parents=True)
    (tmp_path / "page" / "index.html").write_text("<!doctype html><title>Hames</title>" + "<p>words</p>" * 200)
    (assets / "index-abc.js").write_bytes(SCRIPT)
    (assets / "index-abc.js.gz").write_bytes(gzip.compress(SCRIPT))
    (assets / "index-abc.js.br").write_bytes(b"as if it were brotli")
    (assets / "small.css").write_text("a{}")
    return tmp_path / "page"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, ""),
        ("", ""),
        ("identity", ""),
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "br"),
        ("br;q=0.5, gzip", "gzip"),
        ("br;q=0, gzip;q=0", ""),
        ("GZIP", "gzip"),
        ("gzip;q=0.001", "gzip"),
        ("*", "br"),
        ("*;q=0.1, br;q=0", "gzip"),
        ("*;q=0", ""),
        ("gzip;q=abc", ""),
        ("gzip;q=2", ""),
        ("br; q=1.0 , gzip", "br"),
        (",,;;gzip", ""),
        ("identity;q=1, gzip;q=0.5", ""),
    ],
)
def test_the_encoding_is_the_best_one_a_client_takes(header: str | None, expected: str) -> None:
    assert best_encoding(header, ("br", "gzip")) == expected


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        ('"a"', True),
        ('W/"a"', True),
        ('"b", W/"a"', True),
        ("*", True),
        ('"b"', False),
        ("a", False),
        (None, False),
    ],
)
def test_a_tag_is_compared_as_http_has_it(header: str | None, matches: bool) -> None:
    assert etag_matches(header, '"a"') is matches


@pytest.mark.parametrize(
    ("accepts", "encoding", "suffix"),
    [("gzip, deflate, br", "br", ".br"), ("gzip", "gzip", ".gz"), ("identity", None, ""), ("zstd", None, "")],
)
async def test_a_file_of_the_page_goes_out_as_it_was_built(
    tmp_path: Path, page: Path, accepts: str, encoding: str | None, suffix: str
) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", page=page) as server,
        http(server) as client,
    ):
        async with client.stream("GET", "/assets/index-abc.js", headers={"accept-encoding": accepts}) as answer:
            body = b"".join([chunk async for chunk in answer.aiter_raw()])
        assert answer.headers.get("content-encoding") == encoding
        assert body == (page / f"assets/index-abc.js{suffix}").read_bytes()
        assert answer.headers["vary"].lower() == "accept-encoding"
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        assert answer.headers["content-length"] == str(len(body))
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        again = await client.get(
            "/assets/index-abc.js",
            headers={"accept-encoding": accepts, "if-none-match": answer.headers["etag"]},
        )
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]
        assert again.headers["vary"].lower() == "accept-encoding"


async def test_each_encoding_has_a_tag_of_its_own(tmp_path: Path, page: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", page=page) as server,
        http(server) as client,
    ):
        tags = {
            (await client.head("/assets/index-abc.js", headers={"accept-encoding": accepts})).headers["etag"]
            for accepts in ("br", "gzip", "identity")
        }
        assert len(tags) == 3


async def test_compressed_files_are_no_files_of_their_own(tmp_path: Path, page: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", page=page) as server,
        http(server) as client,
    ):
        assert (await client.get("/assets/index-abc.js.gz")).status_code == 404
        assert (await client.get("/assets/index-abc.js.br")).status_code == 404
        small = await client.get("/assets/small.css", headers={"accept-encoding": "br, gzip"})
        assert (small.text, small.headers.get("content-encoding")) == ("a{}", None)
        assert small.headers["vary"].lower() == "accept-encoding"


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=0-9", 206, SCRIPT[:10]),
        ("bytes=10-", 206, SCRIPT[10:]),
        ("bytes=-7", 206, SCRIPT[-7:]),
        (f"bytes={len(SCRIPT) - 1}-{len(SCRIPT) + 50}", 206, SCRIPT[-1:]),
        (f"bytes={len(SCRIPT)}-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=5-2", 200, SCRIPT),
        ("bytes=0-1,5-6", 200, SCRIPT),
        ("lines=0-1", 200, SCRIPT),
        ("bytes=x-y", 200, SCRIPT),
    ],
)
async def test_a_part_of_a_file_is_a_part_of_the_plain_file(
    tmp_path: Path, page: Path, asked: str, status: int, expected: bytes
) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", page=page) as server,
        http(server) as client,
    ):
        headers = {"accept-encoding": "br, gzip", "range": asked}
        answer = await client.get("/assets/index-abc.js", headers=headers)
        assert answer.status_code == status
        assert "content-encoding" not in answer.headers
        if status == 206:
            assert answer.content == expected
            start = SCRIPT.index(expected) if asked != "bytes=-7" else len(SCRIPT) - 7
            if "bytes=0-9" in asked or asked == "bytes=-7":
                span = f"bytes {start}-{start + len(expected) - 1}/{len(SCRIPT)}"
                assert answer.headers["content-range"] == span
            assert answer.headers["accept-ranges"] == "bytes"
        elif status == 416:
            assert answer.headers["content-range"] == f"bytes */{len(SCRIPT)}"
        else:
            assert answer.content == expected


async def test_a_part_of_another_version_is_the_whole_file(tmp_path: Path, page: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", page=page) as server,
        http(server) as client,
    ):
        plain = await client.get("/assets/index-abc.js", headers={"accept-encoding": "identity"})
        part = {"accept-encoding": "identity", "range": "bytes=0-9"}
        same = await client.get("/assets/index-abc.js", headers={**part, "if-range": plain.headers["etag"]})
        assert (same.status_code, same.content) == (206, SCRIPT[:10])
        other = await client.get("/assets/index-abc.js", headers={**part, "if-range": '"of-another-build"'})
        assert (other.status_code, other.content) == (200, SCRIPT)


async def test_a_large_answer_is_compressed_for_a_client_that_takes_it(tmp_path: Path) -> None:
    reply = "The same words again and again. " * 400
    async with (
        engine(ScriptedModel([say(reply)]), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = (await created(its_engine)).id
        await whole_turn(its_engine, thread)
        paths = [f"/threads/{thread}{rest}" for rest in ("", "/export?format=markdown", "/export?format=json")]
        for path in paths:
            plain = await client.get(path, headers={"accept-encoding": "identity"})
            assert "content-encoding" not in plain.headers
            assert plain.headers["vary"].lower() == "accept-encoding"
            async with client.stream("GET", path, headers={"accept-encoding": "gzip, br"}) as answer:
                body = b"".join([chunk async for chunk in answer.aiter_raw()])
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.headers["content-length"] == str(len(body))
            assert len(body) < len(plain.content) / 4
            assert gzip.decompress(body) == plain.content


async def test_a_small_answer_and_a_stream_are_left_alone(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel([say("Hi.")]), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server, **{"accept-encoding": "gzip"}) as client,
    ):
        thread = (await created(its_engine)).id
        assert "content-encoding" not in (await client.get("/healthz")).headers
        async with events(client, f"/events?thread={thread}") as stream:
            assert "content-encoding" not in stream.response.headers
            await whole_turn(its_engine, thread)
            assert (await stream.until("text"))["content"] == "Hi."


async def test_an_unchanged_list_is_304_also_where_it_was_compressed(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock(), cwd=tmp_path) as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server, **{"accept-encoding": "gzip"}) as client,
    ):
        for number in range(20):
            await client.post("/threads", json={"title": f"Thread {number} " + hashlib.sha256(b"x").hexdigest()})
        first = await client.get("/threads")
        assert first.headers["content-encoding"] == "gzip"
        again = await client.get("/threads", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
