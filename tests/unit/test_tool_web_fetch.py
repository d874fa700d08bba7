"""The web fetch tool: a page as Markdown, bounded, and asked about where there is no network."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace

from hames.domain.approvals import RunCommand
from hames.domain.grants import grant_for
from hames.domain.policy import DangerFullAccess, ReadOnly, WorkspaceWrite
from hames.domain.rulings import Verdict, decide
from hames.tools.documents.html import markdown
from toolbench import workshop

PAGE = """<!doctype html><html><head><title>T</title><style>p{}</style></head><body>
<h1>Title</h1><p>Some <b>bold</b> text &amp; a <a href="/more">link</a>.</p>
<script>alert(1)</script><ul><li>one<li>two</ul><pre>x = 1
y = 2</pre><table><tr><td>a</td><td>b</td></tr></table></body></html>"""


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/")
            self.end_headers()
            return
        if self.path == "/to-a-file":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        body, kind = {
            "/": (PAGE.encode(), "text/html; charset=utf-8"),
            "/plain": (b"x" * 100_000, "text/plain"),
            "/binary": (b"\0\1\2", "application/octet-stream"),
            "/latin": ("é".encode("latin-1"), "text/plain; charset=iso-8859-1"),
        }.get(self.path, (b"nothing here", "text/plain"))
        self.send_response(200 if self.path != "/gone" else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def pages() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.needs("curl")
async def test_a_page_is_read_as_markdown_and_bounded(tmp_path: Path) -> None:
    with pages() as address:
        async with workshop(tmp_path / "w") as shop:
            done = await shop.do("web_fetch", url=f"{address}/moved")
            assert not done.failed
            assert done.text.startswith(
                f"[{address}/, status 200]\n# Title\n\nSome **bold** text & a [link]({address}/more)."
            )
            assert "alert" not in done.text
            assert "- one\n- two" in done.text
            assert "```\nx = 1\ny = 2\n```" in done.text
            long = await shop.do("web_fetch", url=f"{address}/plain")
            assert "go on with offset 40000" in long.text
            assert len((await shop.do("web_fetch", url=f"{address}/plain", offset=80_000)).text) < 21_000
            assert "(not text: application/octet-stream" in (await shop.do("web_fetch", url=f"{address}/binary")).text
            assert "é" in (await shop.do("web_fetch", url=f"{address}/latin")).text
            assert "status 404" in (await shop.do("web_fetch", url=f"{address}/gone")).text


@pytest.mark.needs("curl")
async def test_a_redirect_leads_to_no_other_protocol(tmp_path: Path) -> None:
    with pages() as address:
        async with workshop(tmp_path / "w") as shop:
            done = await shop.do("web_fetch", url=f"{address}/to-a-file")
            assert done.failed
            assert "not fetched" in done.text


async def test_only_addresses_of_the_web_are_fetched(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        for url in ("file:///etc/passwd", "ftp://x.org/", "x.org/page", "http://", "https://u:p@x.org/", "http://x y/"):
            assert (await shop.do("web_fetch", url=url)).failed, url
        assert shop.sandbox.launches == []


async def test_a_page_is_judged_like_a_command_that_uses_the_network(tmp_path: Path) -> None:
    for policy in (WorkspaceWrite(), ReadOnly()):
        async with workshop(tmp_path / "w", policy=policy) as shop:
            intent = (await shop.prepare("web_fetch", url="https://example.com/")).intent
        assert isinstance(intent, RunCommand)
        verdict = Verdict(trusted=False)
        rulings = {
            how: decide(intent, policy=how, sandbox=policy, grants=(), verdict=verdict).action
            for how in ("never", "onRequest", "unlessTrusted", "always")
        }
        assert rulings == {"never": "deny", "onRequest": "ask", "unlessTrusted": "ask", "always": "ask"}
    asked = {"never": "allow", "onRequest": "ask", "unlessTrusted": "ask", "always": "ask"}
    for policy, expected in (
        (WorkspaceWrite(network_access=True), {**asked, "onRequest": "allow"}),
        (DangerFullAccess(), asked),
    ):
        async with workshop(tmp_path / "w", policy=policy) as shop:
            intent = (await shop.prepare("web_fetch", url="https://example.com/")).intent
        verdict = Verdict(trusted=False)
        found = {how: decide(intent, policy=how, sandbox=policy, grants=(), verdict=verdict).action for how in asked}
        assert found == expected


async def test_a_page_that_is_always_allowed_allows_no_program(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        page = (await shop.prepare("web_fetch", url="https://example.com/")).intent
        command = (await shop.prepare("shell", command="curl https://example.com/")).intent
    assert isinstance(command, RunCommand)
    grant = grant_for(page)
    assert grant is not None
    leaving = replace(command, unsandboxed=True)
    verdict = Verdict(trusted=False)
    ruling = decide(leaving, policy="unlessTrusted", sandbox=WorkspaceWrite(), grants=(grant,), verdict=verdict)
    assert ruling.action == "ask"


@pytest.mark.needs("curl")
async def test_an_allowed_page_is_still_fetched_behind_walls(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w", policy=ReadOnly()) as shop:
        with pages() as address:
            await shop.run(await shop.prepare("web_fetch", url=f"{address}/"), DangerFullAccess())
        assert [launch.policy for launch in shop.sandbox.launches] == [WorkspaceWrite(network_access=True)]


def test_hostile_pages_are_only_text() -> None:
    assert markdown("<ul>" * 10_000 + "x") == "x"
    assert markdown("<a href='javascript:alert(1)'>x</a>") == "x"
    assert markdown("<script>a</script>b</script>c") == "bc"
    assert markdown("<a href='http://[bad'>x</a>", "http://y/") == "x"


async def test_where_rules_name_hosts_a_redirect_is_told_and_not_followed(tmp_path: Path) -> None:
    with pages() as address:
        async with workshop(tmp_path) as shop:
            shop.place = replace(shop.place, has_host_rules=True, sandbox=DangerFullAccess())
            done = await shop.do("web_fetch", url=f"{address}/moved")
            assert f"it leads to {address}/, which was not fetched" in done.text
            assert "Title" not in done.text
            assert "Title" in (await shop.do("web_fetch", url=f"{address}/")).text
