"""Run the turns of threads in a shared PostgreSQL store, until Ctrl+C or SIGTERM. Nothing listens on a port.

  hames worker --store postgresql://db/hames
                                    take up to 20 turns at once
  hames worker --store postgresql://db/hames --slots 100 --label gpu
                                    more of them, and those of threads whose place is label:gpu
  hames serve --store postgresql://db/hames --no-work
                                    the server for the clients of these threads

The address can also be in the environment variable HAMES_STORE. A worker takes up prompts that servers left in the
store, and the turns of other workers that died or were stopped. When it is stopped, others go on with its turns at
once. Threads, uploads, named tokens, sign-in links and what a day cost are in the store; configuration, API keys,
trusted projects, rules, undo copies, worktrees and background processes stay on each machine.
Exit code: 0 after Ctrl+C or SIGTERM, 1 if the database cannot be reached, 2 for a bad option.
"""

from argparse import ArgumentParser, Namespace

import anyio

from hames import logs
from hames.cli import flags
from hames.cli.node_flags import add_node, node_options, store_address
from hames.cli.serve import until_stopped
from hames.config.load import Options
from hames.domain.display import visible


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser)
    parser.add_argument("--store", metavar="URL", default="", help="the PostgreSQL database: postgresql://…")
    add_node(parser)


def run(args: Namespace) -> int:
    address = store_address(args)
    options = flags.options(args)
    logs.set_up(level=options.log_level, file=options.log_file)
    return anyio.run(_work, options, address, args)


async def _work(options: Options, address: str, args: Namespace) -> int:
    from hames.app import traced
    from hames.app.nodes import open_node

    node = node_options(args, address)
    async with open_node(options, node) as engine, traced(engine, options):
        assert engine.node is not None
        print(
            f"Hames works as node {engine.node.nodes.name}: up to {node.slots} turns at once\n"
            f"  workspace  {visible(str(options.cwd))}\n  model      {engine.rules.defaults.model}\nCtrl+C stops it.",
            flush=True,
        )
        await until_stopped()
    return 0
