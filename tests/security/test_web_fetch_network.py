"""`web_fetch` with the real sandbox and its real proxy. The internet is on the loopback, as in test_network_access."""

import http.server
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from network_support import OWN, PUBLIC, StandIn, web_server

from hames.domain.policy import SandboxPolicy, WorkspaceWrite
from hames.sandbox.local import LocalSandbox
from hames.tools.registry import ToolLimits
from hames.tools.web_fetch import WebFetchLimits
from toolbench import Workshop, workshop

pytestmark = pytest.mark.needs("bwrap", "curl")

PRIVATE = "10.11.12.13"


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path
        if path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", path.removeprefix("/to/"))
            self.end_headers()
            return
        if path == "/long-way":
            self.send_response(302)
            self.send_header("Location", f"/?{'y' * 50_000}")
            self.end_headers()
            return
        self.send_response(200)
        kind = "text/plain; " + "z" * 50_000 if path == "/type" else "text/plain" if path == "/endless" else "text/html"
        self.send_header("Content-Type", kind)
        self.end_headers()
        body = b"x" * 1_000 if path == "/endless" else b"<h1>Hello</h1><p>from the site</p>"
        for _ in range(3_000 if path == "/endless" else 1):
            try:
                self.wfile.write(body)
            except OSError:
                return

    def log_message(self, *_: Any) -> None:
        pass


@asynccontextmanager
async def fetching(root: Path, policy: SandboxPolicy | None = None) -> AsyncGenerator[tuple[Workshop, StandIn, int]]:
    """Every public and private address leads to the same server: what is not refused is reached."""
    with web_server(Site) as port:
        names = {"site.test": [[PUBLIC]], "inside.test": [[PRIVATE]], "mixed.test": [[PUBLIC, PRIVATE]]}
        names["rebinding.test"] = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]
        outside = StandIn(names, dict.fromkeys((PUBLIC, PRIVATE, OWN, "127.0.0.1", "169.254.169.254", "::1"), port))
        sandbox = LocalSandbox(outside=outside)
        try:
            limits = ToolLimits(fetch=WebFetchLimits(page_bytes=100_000))
            async with workshop(root, walls=sandbox, policy=policy, limits=limits) as shop:
                yield shop, outside, port
        finally:
            sandbox.close()


@pytest.mark.parametrize("networked", [False, True], ids=["allowed by a person", "networkAccess"])
async def test_a_public_page_is_fetched_through_the_proxy(tmp_path: Path, *, networked: bool) -> None:
    async with fetching(tmp_path / "w", WorkspaceWrite(network_access=networked)) as (shop, outside, _):
        done = await shop.do("web_fetch", url="http://site.test/to/http://site.test/")
    assert done.text == "[http://site.test/, status 200]\n# Hello\n\nfrom the site"
    assert outside.looked_up == ["site.test", "site.test"]
    assert set(outside.dialled) == {(PUBLIC, 80)}


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
        "http://0.0.0.0:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f.1:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        f"http://{PRIVATE}/",
        f"http://{OWN}/",
        "http://inside.test/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[64:ff9b::7f00:1]:{port}/",
    ],
)
async def test_no_address_that_is_not_public_is_reached_neither_directly_nor_by_a_redirect(
    tmp_path: Path, address: str
) -> None:
    async with fetching(tmp_path / "w") as (shop, outside, port):
        address = address.format(port=port)
        for url in (address, f"http://site.test/to/{address}"):
            done = await shop.do("web_fetch", url=url)
            assert "from the site" not in done.text, url
            assert done.failed or "status 4" in done.text or "status 5" in done.text, done.text
    assert {dialled for dialled, _ in outside.dialled} <= {PUBLIC}


async def test_a_name_that_changes_its_address_is_judged_each_time(tmp_path: Path) -> None:
    async with fetching(tmp_path / "w") as (shop, outside, port):
        done = await shop.do("web_fetch", url=f"http://rebinding.test/to/http://rebinding.test:{port}/")
    assert "from the site" not in done.text
    assert {dialled for dialled, _ in outside.dialled} == {PUBLIC}


@pytest.mark.parametrize("start", [0, 90_000])
async def test_of_a_page_without_an_end_the_beginning_is_shown(tmp_path: Path, start: int) -> None:
    async with fetching(tmp_path / "w") as (shop, _, _):
        done = await shop.do("web_fetch", url="http://site.test/endless", offset=start)
    assert not done.failed, done.text
    head, _, text = done.text.partition("\n")
    assert head.startswith("[http://site.test/endless, cut: it is larger than 100,000 bytes")
    assert text == "x" * min(40_000, 100_000 - start)


async def test_a_type_and_an_address_of_any_length_are_cut(tmp_path: Path) -> None:
    async with fetching(tmp_path / "w") as (shop, _, _):
        done = await shop.do("web_fetch", url="http://site.test/type")
        assert "status 200" in done.text
        assert len(done.text) < 3_000
        moved = await shop.do("web_fetch", url="http://site.test/long-way")
        assert moved.failed or len(moved.text) < 5_000
