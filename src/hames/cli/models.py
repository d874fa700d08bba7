"""List the models; a star marks the one that new threads use. --options also lists the options of each model.

  hames models
  hames models --options
  hames models --refresh
  hames models --json | jq -r '.[].id'

Prices are in dollars per million tokens. Models that can be used now come first; the others need a key.
"""

import sys
from argparse import ArgumentParser, Namespace

import anyio
import msgspec

from hames.app import catalogue
from hames.cli import flags
from hames.cli.ask_server import ask_server
from hames.cli.paint import Paint
from hames.client.appserver.client import AppServerClient
from hames.config.load import Options
from hames.domain.display import visible
from hames.domain.errors import HarnessError
from hames.tui.text import NOT_SET_UP, described_model, is_usable


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--options", action="store_true", help="also list the options of each model")
    parser.add_argument("--refresh", action="store_true", help="ask the model services for their current lists first")
    flags.add_shared(parser, flags.WORKSPACE)


def run(args: Namespace) -> int:
    if args.refresh:
        anyio.run(_refresh, flags.options(args))
    return ask_server(args, lambda client: _run(args, client))


async def _refresh(options: Options) -> None:
    """One line each on stderr; a service that does not answer keeps its old list."""
    known = catalogue(options)
    for name in known.refreshable():
        try:
            print(f"{name}: {await known.refresh(name)} models", file=sys.stderr)
        except HarnessError as problem:
            print(f"{name}: {visible(str(problem))}", file=sys.stderr)
    await known.aclose()


async def _run(args: Namespace, client: AppServerClient) -> int:
    models = [model for model in await client.models() if not model.hidden]
    chosen = (await client.read_config()).model
    options = await client.config_options() if args.options else []
    if args.json:
        print(msgspec.json.encode({"models": models, "options": options} if args.options else models).decode())
        return 0
    paint = Paint.for_stream(sys.stdout)
    usable = [model for model in models if is_usable(model)]
    others = [model for model in models if not is_usable(model)]
    width = max((len(visible(model.id)) for model in models), default=0)
    for group, heading in ((usable, ""), (others, f"\n{NOT_SET_UP}")):
        if group and heading:
            print(paint.bold(heading))
        for model in group:
            mark = "*" if model.id == chosen else " "
            print(
                f"{mark} {paint.accent(visible(model.id).ljust(width))}  {paint.dim(visible(described_model(model)))}"
            )
    for option in options:
        print(f"\n{paint.bold(visible(option.id))}  {visible(option.description or option.name)}")
        for choice in option.options:
            mark = "*" if choice.id == option.value else " "
            print(f"  {mark} {visible(choice.id):<12} {paint.dim(visible(choice.description or choice.name))}")
    return 0
