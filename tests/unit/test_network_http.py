"""HTTP heads as the proxy of a command reads them: strictly, and the same however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.sandbox.walls.network.destinations import Destination, Malformed
from hames.sandbox.walls.network.http_messages import (
    HEAD_BYTES,
    ChunkedBody,
    find_head,
    forwarded_request,
    forwarded_response,
    parse_request,
    parse_response,
    parse_url,
)

HOST = Destination(host="example.org", port=80)


def test_a_request_goes_on_with_our_host_and_without_what_was_meant_for_the_proxy() -> None:
    request = parse_request(
        b"POST http://example.org/a?b HTTP/1.1\r\nHost: elsewhere\r\nConnection: keep-alive, X-Drop\r\nX-Drop: 1\r\n"
        b"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nUpgrade: h2c\r\n"
        b"Content-Length: 3\r\nAccept: */*\r\n\r\n"
    )
    assert forwarded_request(request, HOST, b"/a?b") == (
        b"POST /a?b HTTP/1.1\r\nhost: example.org\r\naccept: */*\r\ncontent-length: 3\r\nconnection: close\r\n\r\n"
    )


def test_a_connection_header_cannot_take_the_length_away() -> None:
    request = parse_request(b"POST http://a/ HTTP/1.1\r\nConnection: content-length\r\nContent-Length: 3\r\n\r\n")
    assert b"content-length: 3\r\n" in forwarded_request(request, HOST, b"/")
    response = parse_response(b"HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 3\r\n\r\n")
    assert forwarded_response(response) == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\n"


def test_an_answer_ends_the_connection_and_an_interim_one_does_not() -> None:
    final = parse_response(b"HTTP/1.1 204\r\nKeep-Alive: timeout=5\r\nConnection: keep-alive\r\n\r\n")
    assert forwarded_response(final) == b"HTTP/1.1 204\r\nconnection: close\r\n\r\n"
    interim = parse_response(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert forwarded_response(interim) == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"GET http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"GET http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\n Host: a\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nHo st: a\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\n: a\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nHost\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nA: b\0c\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nA: \x7f\r\n\r\n",
        b"GET  http://a/ HTTP/1.1\r\n\r\n",
        b"GET http://a/  HTTP/1.1\r\n\r\n",
        b"GET http://a/ b HTTP/1.1\r\n\r\n",
        b"GET\thttp://a/\tHTTP/1.1\r\n\r\n",
        b"GET http://a/\r\n\r\n",
        b"GET http://a/ HTTP/2.0\r\n\r\n",
        b"GET http://a/ HTTP/1.2\r\n\r\n",
        b"GET http://a/ http/1.1\r\n\r\n",
        b"G\0T http://a/ HTTP/1.1\r\n\r\n",
        b"\r\nGET http://a/ HTTP/1.1\r\n\r\n",
        b"GET http://\xc3\xa4/ HTTP/1.1\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n",
    ],
)
def test_a_head_that_could_be_read_in_two_ways_is_malformed(head: bytes) -> None:
    with pytest.raises(Malformed):
        parse_request(head)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\n\n", b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", b"\n"])
def test_a_bare_line_feed_is_refused_as_soon_as_it_is_seen(data: bytes) -> None:
    with pytest.raises(Malformed, match="bare line feed"):
        find_head(data)


def test_a_head_has_a_longest_size() -> None:
    with pytest.raises(Malformed, match="longer"):
        find_head(b"a" * (HEAD_BYTES + 1))
    with pytest.raises(Malformed, match="longer"):
        find_head(b"a" * (HEAD_BYTES + 1) + b"\r\n\r\n")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_malformed(data: bytes) -> None:
    try:
        size = find_head(data + b"\r\n\r\n")
        request = parse_request((data + b"\r\n\r\n")[:size])
        parse_url(request.target)
    except Malformed:
        pass


@pytest.mark.parametrize(
    ("target", "host", "path"),
    [
        (b"http://example.org", "example.org:80", b"/"),
        (b"HTTP://Example.org:8080/a/b?c=d://e@f", "example.org:8080", b"/a/b?c=d://e@f"),
        (b"http://example.org?x=/y", "example.org:80", b"/?x=/y"),
        (b"http://[2606:4700::1]/", "[2606:4700::1]:80", b"/"),
    ],
)
def test_an_address_is_split_into_its_host_and_its_path(target: bytes, host: str, path: bytes) -> None:
    destination, found = parse_url(target)
    assert (str(destination), found) == (host, path)


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"//example.org/",
        b"*",
        b"example.org:80",
        b"https://example.org/",
        b"ftp://example.org/",
        b"file:///etc",
        b"http://",
        b"http:///x",
        b"http:example.org",
        b"http:/example.org",
        b"http://a@b/",
        b"http://a:b@c/",
        b"http://a#b/",
        b"http://a/#b",
        b"http://a\\@b/",
        b"http://a:80:90/",
        b"/http://a/",
        b"http://a%00b/",
    ],
)
def test_what_is_no_plain_http_address_is_malformed(target: bytes) -> None:
    with pytest.raises(Malformed):
        parse_url(target)


CHUNKS = b"3\r\nabc\r\nA;name=value\r\n0123456789\r\n0\r\n\r\n"


@given(st.lists(st.integers(0, len(CHUNKS) + 20), max_size=8))
def test_a_chunked_body_does_not_care_how_it_is_cut_and_ends_where_it_ends(cuts: list[int]) -> None:
    data = CHUNKS + b"GET http://second/ HTTP/1.1\r\n\r\n"
    body, out, last = ChunkedBody(), b"", 0
    for cut in [*sorted(cuts), len(data)]:
        out += body.feed(data[last:cut])
        last = max(last, cut)
    assert body.ended
    assert out == b"3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"3\nabc\r\n",
        b"-1\r\n",
        b"+3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b" 3\r\nabc\r\n",
        b"3\r\nabcd\r\n",
        b"\r\n",
        b"g\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nab\r\n0\r\n\r\n",
        b"0\r\nTrailer: x\r\n\r\n",
        b"f" * 16 + b"\r\n",
        b"3;" + b"a" * 300,
        b"3;a\x00b\r\nabc\r\n",
        b"0\r\n\n",
    ],
)
def test_a_body_that_is_not_in_chunks_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        ChunkedBody().feed(data)
    body = ChunkedBody()
    with pytest.raises(Malformed):
        for byte in data:
            body.feed(bytes([byte]))
