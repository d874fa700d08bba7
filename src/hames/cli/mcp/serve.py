"""`hames mcp serve`: Hames as an MCP server, over stdin and stdout."""

from argparse import ArgumentParser, Namespace

from hames.app import default_settings
from hames.cli import flags, stdio_server
from hames.config.load import Options
from hames.ports import Models
from hames.protocols.session import Session


def add_arguments(parser: ArgumentParser) -> None:
    stdio_server.add_arguments(parser, above=flags.WORKSPACE)  # `hames mcp --cwd DIR serve` means the same


def run(args: Namespace) -> int:
    return stdio_server.run(args, "mcp", _open_session)


def _open_session(options: Options, models: Models) -> Session:
    from hames.protocols.mcp.session import McpServerSession

    return McpServerSession(default_settings(options, models))
