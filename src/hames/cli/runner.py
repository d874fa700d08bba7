"""Run an agent in a sandbox for a server on another machine: it takes prompts over HTTP and sends events as SSE.

  hames runner                      http://127.0.0.1:4900, for this user only
  hames runner --host 0.0.0.0 --token --cwd /work
                                    in a container or on another machine; the token is HAMES_TOKEN
  hames serve --runner http://127.0.0.1:4900
                                    the server that sends its turns to this runner

POST /runs {"prompt": "…", "thread": "…"} answers with run.started, assistant.delta, tool.started, tool.output,
tool.completed, tool.failed and run.completed or run.error. Closing the request cancels the run.
GET /capabilities lists what else a run can have: a model, a sandbox policy, images, instructions and more.
A run can have a stricter sandbox policy than this runner's (--sandbox), never a looser one.
If the request has "approvalPolicy", as `hames serve --runner` sends it, the run can send approval.requested and waits
for POST /approvals/{id} {"decision": "once"}. Without it the run never asks; commands stay in the sandbox.
--approval-policy of the runner overrides the request.
Exit code: 0 after Ctrl+C or SIGTERM, 2 for a bad option.
"""

from argparse import ArgumentParser, Namespace
from functools import partial

import anyio

from hames import __version__, logs
from hames.app import open_engine
from hames.cli import flags
from hames.cli.serve import add_address, address_of, token_of, until_stopped
from hames.config.load import Options
from hames.domain.display import visible
from hames.server.listener import Address
from hames.server.runner import running

PORT = 4900


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser)
    add_address(parser, PORT)
    parser.add_argument(
        "--allow-mcp-servers",
        action="store_true",
        help="start MCP servers that clients bring for their threads; they run outside the sandbox",
    )


def run(args: Namespace) -> int:
    asks = args.approval_policy is None
    if asks:
        args.approval_policy = "never"
    options = flags.options(args)
    logs.set_up(level=options.log_level, file=options.log_file)
    servers = args.allow_mcp_servers
    return anyio.run(partial(_run, options, address_of(args), token_of(args, options), asks=asks, servers=servers))


async def _run(options: Options, address: Address, token: str | None, *, asks: bool, servers: bool) -> int:
    async with (
        open_engine(options) as engine,
        running(
            engine,
            address,
            version=__version__,
            token=token,
            tokens_dir=options.state_dir,
            asks=asks,
            starts_servers=servers,
        ) as runner,
    ):
        print(f"Hames runs on {runner.url}", flush=True)
        print(
            f"  workspace  {visible(str(options.cwd))}\n  model      {engine.rules.defaults.model}\nCtrl+C stops it.",
            flush=True,
        )
        await until_stopped()
    return 0
