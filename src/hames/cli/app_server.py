"""Serve flint (JSON lines in the format of Codex's app server) over stdin and stdout, until stdin ends.

  hames app-server --cwd path/to/repo
  echo '{"id":1,"method":"initialize","params":{"clientInfo":{"name":"me","version":"1"}}}' | hames app-server
  hames app-server --attach         use the threads of a running `hames serve` of the same data directory
  hames app-server --listen ws://127.0.0.1:4500
                                    the same over a WebSocket, until Ctrl+C or SIGTERM

The options of `codex app-server` are understood, also before the command: `hames -c model=NAME app-server`. A setting
of Codex's that does not exist here is reported on stderr and ignored.

stdout carries only protocol messages; logs go to stderr or to --log-file.
Exit code: 0 when stdin ends, 128 + the signal number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option,
1 if the server used with --attach has ended.
"""

import sys
from argparse import ArgumentParser, Namespace

from hames.app import default_settings, has_chosen_policy
from hames.cli import stdio_server
from hames.cli.codex import launch
from hames.cli.codex.settings import CodexSettings, ignored, load_options, read_settings
from hames.config.load import Options
from hames.domain.errors import InvalidCommand, Misconfigured
from hames.ports import Models
from hames.protocols.flint.session import FlintSession


def add_arguments(parser: ArgumentParser) -> None:
    stdio_server.add_arguments(parser)
    launch.add_arguments(parser)


def run(args: Namespace) -> int:
    settings = read_settings(args.config)
    for key in (*settings.unknown, *(f"features.{name}" for name in (*args.enable, *args.disable))):
        _report(ignored(key))
    if (address := launch.listen_address(args)) is not None:
        for name in settings.options:
            _report(ignored(name))  # every client of a WebSocket chooses its own
        return _listen(args, address, settings)
    codex = launch.is_codex_launch(args)

    def session(options: Options, models: Models) -> FlintSession:
        opened = FlintSession(
            models,
            default_settings(options, models),
            home=str(options.data_dir),
            codex=codex,
            policy_chosen=has_chosen_policy(options),
        )
        for name, value in settings.options.items():
            try:
                opened.choose(name, value)
            except InvalidCommand as problem:
                _report(f"{name} is ignored: {problem}")
        return opened

    return stdio_server.run(args, "flint", session, load=lambda: load_options(args, settings))


def _report(sentence: str) -> None:
    print(f"hames: {sentence}", file=sys.stderr, flush=True)


def _listen(args: Namespace, address: tuple[str, int], settings: CodexSettings) -> int:
    """A WebSocket instead of stdin and stdout: the same server as `hames serve`, on this address."""
    if args.attach:
        raise Misconfigured("--attach uses stdin and stdout; leave out --listen")
    import os

    import anyio

    from hames import logs
    from hames.app import open_engine, serve_engine, thread_store, traced
    from hames.cli.serve import until_stopped
    from hames.server.guard.token import checked
    from hames.server.listener import Address

    options = load_options(args, settings)
    logs.set_up(level=options.log_level, file=options.log_file)
    token = checked(os.environ["HAMES_TOKEN"]) if os.environ.get("HAMES_TOKEN") else None
    host, port = address
    store = thread_store(options)
    store.prepare()

    async def serve() -> int:
        async with (
            open_engine(options, store=store, leaves_turns=True) as engine,
            serve_engine(engine, options, Address(host=host, port=port), token=token) as server,
            traced(engine, options),
        ):
            engine.beside(engine.continue_turns)
            where = server.url.replace("http://", "ws://", 1)
            print(f"hames app-server (WebSockets)\n  listening on: {where}", file=sys.stderr, flush=True)
            await until_stopped()
        return 0

    return anyio.run(serve)
