"""HTTPS with our own certificate, and behind a reverse proxy."""

import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import time
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect

from hames.cli import flags, tui
from hames.cli.parsing import parser_for
from hames.cli.spawn import server_command
from hames.clock_and_ids import SystemClock
from hames.domain.errors import Misconfigured
from hames.domain.items import TextInput
from hames.server.app import Server
from hames.server.guard.proxies import apply_forwarded, read_proxies
from hames.server.guard.tls import Certificate
from hames.server.listener import Address
from hames.server.remote import socket_url
from hames.testing.fakes.model import ScriptedModel, say
from hames.tui.server_process import spawn_server
from server_support import SyncFollower, http, port_of, running
from support import created, engine

TOKEN = "a-token-for-the-owner-123"
STATIC = Path(__file__).parents[2] / "src" / "hames" / "web" / "static"


def certificate(directory: Path, name: str = "first") -> tuple[str, str]:
    """A certificate for 127.0.0.1 that is its own CA, and its key."""
    cert, key = directory / f"{name}.pem", directory / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    return str(cert), str(key)


def secure(pair: tuple[str, str]) -> Address:
    return Address(port=0, tls_cert=pair[0], tls_key=pair[1])


def name_of(server: Server, cafile: str) -> str:
    """Who the server says it is, in a handshake of its own."""
    context = ssl.create_default_context(cafile=cafile)
    with (
        socket.create_connection(("127.0.0.1", port_of(server)), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        return dict(pair[0] for pair in secured.getpeercert()["subject"])["commonName"]  # type: ignore[index]


@pytest.mark.needs("openssl")
async def test_every_protocol_is_spoken_over_tls(tmp_path: Path) -> None:
    pair = certificate(tmp_path)
    context = ssl.create_default_context(cafile=pair[0])
    async with (
        engine(ScriptedModel([say("Hello.")]), clock=SystemClock()) as house,
        running(house, tmp_path / "data", token=TOKEN, address=secure(pair)) as server,
        httpx2.AsyncClient(
            base_url=server.url, verify=context, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False
        ) as client,
    ):
        assert server.url.startswith("https://127.0.0.1:")
        thread = (await created(house)).id
        assert (await client.get("/status")).json()["role"] == "owner"
        async with client.stream("GET", f"/events?thread={thread}") as stream:
            assert stream.status_code == 200
            url = server.url.replace("https", "wss", 1)
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with connect(
                f"{url}/ws?thread={thread}", ssl=context, additional_headers=headers, proxy=None
            ) as sock:
                page = SyncFollower(sock)
                await page.hear()
                await page.send({"type": "submit", "prompt": "go"})
                await page.until(lambda state: state["status"] != "running" and bool(state["messages"]))
            heard = ""
            with anyio.fail_after(60):
                async for text in stream.aiter_text():
                    heard += text
                    if "Hello." in heard:
                        break
        made = (await client.post("/links", json={})).json()
        cookie = (await client.post("/sign-in", json={"code": made["code"]})).headers["set-cookie"]
        assert "secure" in cookie.lower()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, OSError)):
            await anyio.to_thread.run_sync(_handshake, old, port_of(server))


def _handshake(context: ssl.SSLContext, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        context.wrap_socket(plain)


@pytest.mark.needs("openssl")
async def test_a_new_certificate_is_taken_without_ending_connections(tmp_path: Path) -> None:
    pair, later = certificate(tmp_path), certificate(tmp_path, "second")
    everybody = tmp_path / "both.pem"
    everybody.write_text(Path(pair[0]).read_text() + Path(later[0]).read_text())
    context = ssl.create_default_context(cafile=str(everybody))
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data", address=secure(pair)) as server,
    ):
        thread = (await created(house)).id

        async def until_named(wanted: str) -> None:
            with anyio.fail_after(60):
                while await anyio.to_thread.run_sync(name_of, server, str(everybody)) != wanted:
                    await anyio.sleep(0.1)

        url = server.url.replace("https", "wss", 1) + f"/ws?thread={thread}"
        async with connect(url, ssl=context, proxy=None) as sock:
            await sock.recv()
            await until_named("first")
            shutil.copy(later[0], pair[0])
            shutil.copy(later[1], pair[1])
            await until_named("second")
            pong = await sock.ping()
            with anyio.fail_after(60):
                await pong


@pytest.mark.needs("openssl")
def test_a_new_pair_that_cannot_be_used_leaves_the_old_one_and_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair, later = certificate(tmp_path), certificate(tmp_path, "second")
    opened = Certificate(*pair)
    first = opened.newest
    shutil.copy(later[0], pair[0])  # the key is still the old one: not a pair
    opened.refresh()
    assert opened.newest is first
    assert [record.message for record in caplog.records] == ["tls.not_reloaded"]
    assert "does not belong" in caplog.records[0].__dict__["why"]
    shutil.copy(later[1], pair[1])
    opened.refresh()
    assert opened.newest is not first
    second = opened.newest
    Path(pair[0]).unlink()
    opened.refresh()
    assert opened.newest is second


@pytest.mark.needs("openssl")
def test_a_pair_that_cannot_be_used_is_refused_in_words(tmp_path: Path) -> None:
    first, second = certificate(tmp_path), certificate(tmp_path, "second")
    for pair, words in (
        ((first[0], second[1]), "does not belong"),
        ((first[0], str(tmp_path / "none")), "No such file"),
        ((first[1], first[1]), "PEM"),
    ):
        with pytest.raises(Misconfigured, match=words):
            Certificate(*pair)
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", first[1], "-out", str(locked), "-aes256", "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(Misconfigured, match="password"):  # and nobody is asked for it on the terminal
        Certificate(first[0], str(locked))


@pytest.mark.needs("openssl")
async def test_a_client_of_another_machine_trusts_the_ca_that_it_is_given(tmp_path: Path) -> None:
    pair = certificate(tmp_path)
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data", token=TOKEN, address=secure(pair)) as server,
    ):
        code = "import sys; from hames.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "harness", "--server", server.url]
        home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HAMES_TOKEN": TOKEN}
        line = b'{"jsonrpc":"2.0","id":7,"method":"thread.create","params":{}}\n'
        with anyio.fail_after(60):
            found = await anyio.run_process(
                [*command, "--tls-ca", pair[0]], input=line, env=home, check=False, cwd=tmp_path
            )
            strange = await anyio.run_process(command, input=line, env=home, check=False, cwd=tmp_path)
            wrong = await anyio.run_process(
                [*command, "--tls-ca", pair[0]], input=line, env={**home, "HAMES_TOKEN": "x"}, check=False, cwd=tmp_path
            )
    assert strange.returncode == 2 and b"--tls-ca" in strange.stderr, strange.stderr
    assert wrong.returncode == 2 and b"HAMES_TOKEN" in wrong.stderr, wrong.stderr
    assert (found.returncode, b"threadId" in found.stdout) == (0, True), found.stderr


@pytest.mark.parametrize("url", ["x", "ftp://a", "https://", "https://a:b", "https://a/?q"])
def test_a_server_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="--server"):
        socket_url(url, "flint")


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("trust", ["--tls-ca", "SSL_CERT_FILE"])
async def test_the_terminal_uses_a_server_with_a_certificate(tmp_path: Path, trust: str) -> None:
    cert, key = certificate(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    words = ["--cwd", str(tmp_path / "elsewhere"), *(["--tls-ca", cert] if trust == "--tls-ca" else [])]
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HAMES_TOKEN": TOKEN}
    home |= {} if trust == "--tls-ca" else {trust: cert}
    async with (
        engine(ScriptedModel([say("Hello from afar.")]), clock=SystemClock(), cwd=tmp_path) as house,
        running(house, tmp_path / "data", token=TOKEN, address=secure((cert, key))) as server,
    ):
        args = terminal_arguments("--attach", server.url, *words)
        assert (args.attach, args.server, args.prompt) == (True, server.url, "")
        options = flags.options(args)
        with anyio.fail_after(60):
            async with spawn_server(server_command(args, options, attach=True), env=home) as client:
                thread = (await client.start_thread()).thread.id
                turn = await client.run(thread, [TextInput(text="go")])
        assert turn.status == "completed"


@pytest.mark.slow
@pytest.mark.needs("openssl")
async def test_a_person_sees_the_answer_of_a_server_with_a_certificate_in_the_terminal(tmp_path: Path) -> None:
    pair = certificate(tmp_path)
    async with (
        engine(ScriptedModel([say("Hello from afar.")]), clock=SystemClock(), cwd=tmp_path) as house,
        running(house, tmp_path / "data", token=TOKEN, address=secure(pair)) as server,
    ):
        words = ["tui", "--attach", server.url, "--tls-ca", pair[0], "go"]
        shown = await anyio.to_thread.run_sync(partial(_in_a_terminal, words, tmp_path, until=b"Hello from afar."))
    assert b"Hello from afar." in shown


def _in_a_terminal(words: list[str], home: Path, *, until: bytes) -> bytes:
    """What the program draws, up to these words."""
    import pty

    code = "import sys; from hames.cli.main import main; sys.exit(main())"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HAMES_TOKEN": TOKEN, "TERM": "xterm-256color"}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=home,
        start_new_session=True,
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 60
    try:
        while until not in shown and time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)
    finally:
        process.kill()
        process.wait(10)
        os.close(ours)
    return shown


def terminal_arguments(*words: str) -> Namespace:
    parser = parser_for("hames", "")
    tui.add_arguments(parser)
    args = parser.parse_args(list(words))
    tui.find_server(args)
    return args


def test_a_prompt_behind_attach_is_a_prompt() -> None:
    args = terminal_arguments("--attach", "Why does test_cart fail?")
    assert (args.attach, args.server, args.prompt) == (True, "", "Why does test_cart fail?")
    assert terminal_arguments().attach is False
    assert terminal_arguments("--attach").attach is True
    for words in (["--attach", "x", "y"], ["--tls-ca", "x"], ["--attach", "https://a", "--server", "https://b"]):
        with pytest.raises(Misconfigured):
            terminal_arguments(*words)


# -- behind a proxy


def scope(client: str, **headers: str) -> dict[str, Any]:
    raw = [(b"host", b"10.0.0.9:4800")] + [
        (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
    ]
    return {"type": "http", "scheme": "http", "client": (client, 1234), "headers": raw}


SAID = {
    "x_forwarded_proto": "https",
    "x_forwarded_host": "hames.example",
    "x_forwarded_for": "6.6.6.6, 9.9.9.9, 10.0.0.7",
}


def test_only_a_trusted_proxy_is_believed() -> None:
    trusted = read_proxies(["10.0.0.0/24"])
    told = scope("10.0.0.5", **SAID)
    apply_forwarded(told, trusted)
    assert (told["scheme"], told["client"][0], dict(told["headers"])) == (
        "https",
        "9.9.9.9",
        {b"host": b"hames.example"},
    )
    for other in (scope("10.0.1.5", **SAID), scope("127.0.0.1", **SAID)):
        before = (other["scheme"], other["client"])
        apply_forwarded(other, trusted)
        assert (other["scheme"], other["client"], other["headers"]) == (*before, [(b"host", b"10.0.0.9:4800")])
    nobody = scope("127.0.0.1", **SAID)
    apply_forwarded(nobody, ())
    assert nobody["scheme"] == "http"


def test_a_header_that_came_twice_is_not_believed() -> None:
    told = scope("10.0.0.5", **SAID)
    told["headers"].append((b"x-forwarded-host", b"evil.example"))
    apply_forwarded(told, read_proxies(["10.0.0.5"]))
    assert (told["scheme"], told["headers"]) == ("http", [(b"host", b"10.0.0.9:4800")])


def test_a_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(Misconfigured, match="--trusted-proxy"):
        read_proxies(["example.com"])


async def test_a_proxy_without_a_token_would_let_everybody_in(tmp_path: Path) -> None:
    async with engine(ScriptedModel()) as house:
        with pytest.raises(Misconfigured, match="token"):
            async with running(house, tmp_path / "data", address=Address(port=0, proxies=("127.0.0.1",))):
                pass


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("path", ["", pytest.param("/hames", marks=pytest.mark.slow)])
async def test_the_nginx_configuration_of_the_documentation_works(tmp_path: Path, path: str) -> None:
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed: apt-get install nginx")
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(cafile=cert)
    port = _free_port()
    text = (Path(__file__).parents[2] / "docs" / "reverse-proxy.md").read_text()
    block = text.split("```nginx\n")[1].split("```")[0]
    name = f"localhost:{port}"
    address = Address(port=0, names=(name,), proxies=("127.0.0.1",))
    async with (
        engine(ScriptedModel([say("Hello.")]), clock=SystemClock()) as house,
        running(house, tmp_path / "data", token=TOKEN, address=address, page=STATIC) as server,
    ):
        thread = (await created(house)).id
        for old, new in (
            ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
            ("hames.example.com", "localhost"),
            ("/etc/ssl/hames.pem", cert),
            ("/etc/ssl/hames.key", key),
            ("127.0.0.1:4800", server.url.removeprefix("http://")),
        ):
            assert old in block, old
            block = block.replace(old, new)
        if path:  # as the documentation says for a path in front
            block = block.replace("location / {", f"location {path}/ {{")
            block = block.replace(f"proxy_pass {server.url};", f"proxy_pass {server.url}/;")
        places = "".join(
            f"{kind}_temp_path {tmp_path};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; error_log stderr; events {{}}\n"
            f"http {{ access_log off;\n{places}{block}\n}}\n"
        )
        command = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        async with await anyio.open_process(command, stderr=subprocess.PIPE) as process:
            try:
                await _through_proxy(f"https://localhost:{port}", path, context, thread, process)
                await _page_through_proxy(f"https://localhost:{port}", path, context, server)
            finally:
                process.terminate()
                await process.wait()


@pytest.mark.slow
@pytest.mark.needs("openssl", "caddy")
@pytest.mark.parametrize("path", ["", "/hames"])
async def test_the_caddy_configuration_of_the_documentation_works(tmp_path: Path, path: str) -> None:
    cert, key = certificate(tmp_path)
    port = _free_port()
    text = (Path(__file__).parents[2] / "docs" / "reverse-proxy.md").read_text()
    block = text.split("## A path in front" if path else "## Behind Caddy")[1].split("```text\n")[1].split("```")[0]
    address = Address(port=0, names=(f"localhost:{port}",), proxies=("127.0.0.1",))
    async with (
        engine(ScriptedModel([say("Hello.")]), clock=SystemClock()) as house,
        running(house, tmp_path / "data", token=TOKEN, address=address, page=STATIC) as server,
    ):
        thread = (await created(house)).id
        # Its own certificate comes from the internet, so a test brings one along.
        for old, new in (
            (
                "example.com {" if path else "hames.example.com {",
                f"https://localhost:{port} {{\n    bind 127.0.0.1\n    tls {cert} {key}",
            ),
            ("127.0.0.1:4800", server.url.removeprefix("http://")),
        ):
            assert old in block, old
            block = block.replace(old, new)
        (tmp_path / "Caddyfile").write_text(
            "{\n    admin off\n    auto_https disable_redirects\n    grace_period 1s\n}\n" + block
        )
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "caddy")}
        async with await anyio.open_process(command, stderr=subprocess.PIPE, env=environment) as process:
            try:
                context = ssl.create_default_context(cafile=cert)
                await _through_proxy(f"https://localhost:{port}", path, context, thread, process)
                await _page_through_proxy(f"https://localhost:{port}", path, context, server)
            finally:
                process.terminate()
                await process.wait()


async def _through_proxy(
    origin: str, path: str, context: ssl.SSLContext, thread: str, process: anyio.abc.Process
) -> None:
    url = origin + path
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(base_url=url, verify=context, headers=headers, trust_env=False) as client:
        with anyio.fail_after(60):
            while True:
                assert process.returncode is None, (await process.stderr.receive()).decode()  # type: ignore[union-attr]
                try:
                    assert (await client.get("/status")).status_code == 200
                    break
                except httpx2.ConnectError:
                    await anyio.sleep(0.05)
        async with client.stream("GET", f"/events?thread={thread}") as stream:
            assert stream.status_code == 200
            socket_headers = {**headers, "origin": origin}
            address = url.replace("https", "wss", 1) + f"/ws?thread={thread}"
            async with connect(address, ssl=context, additional_headers=socket_headers, proxy=None) as sock:
                page = SyncFollower(sock)
                await page.hear()
                await page.send({"type": "submit", "prompt": "go"})
                heard = ""
                with anyio.fail_after(60):  # unbuffered: it comes while the stream is open
                    async for text in stream.aiter_text():
                        heard += text
                        if "Hello." in heard:
                            break
        refused = await client.post("/cancel", headers={"origin": "https://evil.example"})
        assert refused.status_code == 403
        made = (await client.post("/links", json={}, headers={"origin": origin})).json()
        cookie = (await client.post("/sign-in", json={"code": made["code"]})).headers["set-cookie"]
        assert "secure" in cookie.lower(), "the server did not notice that the browser uses HTTPS"


async def _page_through_proxy(origin: str, path: str, context: ssl.SSLContext, server: Server) -> None:
    """A browser without a token: it follows a sign-in link, and loads all that the page names."""
    own = (await server.link()).removeprefix(server.url)
    async with httpx2.AsyncClient(verify=context, trust_env=False) as browser:
        if path:
            bare = await browser.get(origin + path)
            assert (bare.status_code // 100, httpx2.URL(origin + path).join(bare.headers["location"]).path) == (
                3,
                "/hames/",
            )
        assert (await browser.get(f"{origin}{path}/status")).status_code == 401
        signed = await browser.get(origin + path + own)
        home = httpx2.URL(origin + path + own).join(signed.headers["location"])
        assert (signed.status_code, str(home)) == (303, f"{origin}{path}/")
        assert "path" not in signed.headers["set-cookie"].lower()
        assert [cookie.path for cookie in browser.cookies.jar] == [path or "/"], (
            "it is sent to nobody else on this name"
        )
        assert (await browser.get(f"{origin}{path}/status")).status_code == 200
        for place in (home, httpx2.URL(f"{origin}{path}/t/ses_1")):
            page = await browser.get(place)
            named = re.findall(r'(?:href|src)="([^"]+)"', page.text)
            assert len(named) == 4
            for name in named:
                found = place.join(name)
                assert found.path.startswith(f"{path}/")
                answer = await browser.get(found)
                assert answer.status_code == 200, found
                if name.endswith("webmanifest"):
                    about = answer.json()
                    assert str(found.join(about["start_url"])) == str(home)
                    assert (await browser.get(found.join(about["icons"][0]["src"]))).status_code == 200
    invited = (await server.link()).removeprefix(server.url)
    async with httpx2.AsyncClient(verify=context, trust_env=False, follow_redirects=True) as browser:
        there = await browser.get(f"{origin}{path}/t/ses_1{invited.removeprefix('/')}")
        assert (there.status_code, str(there.url)) == (200, f"{origin}{path}/")
        assert (await browser.get(f"{origin}{path}/status")).status_code == 200


async def test_forwarded_headers_of_strangers_change_nothing(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data", token=TOKEN) as server,
        http(server, authorization=f"Bearer {TOKEN}") as client,
    ):
        said = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https"}
        made = (await client.post("/links", json={}, headers=said)).json()
        answer = await client.post("/sign-in", json={"code": made["code"]}, headers=said)
        assert answer.status_code == 200 and "secure" not in answer.headers["set-cookie"].lower()
        assert json.loads(answer.text) == {"ok": True}
