"""What a client brings for its thread, read alike in both dialects: instructions, and what else shapes its turns."""

from msgspec.structs import replace

from hames.codecs.jsonrpc import Params
from hames.domain.commands import (
    ChangeSettings,
    Command,
    CreateThread,
    ForkThread,
    ResumeThread,
    StartTurn,
    SubmitPrompt,
)
from hames.domain.json import NOTHING
from hames.protocols.flint import messages as m
from hames.protocols.flint.inbound import Local, read
from hames.protocols.instructions import with_instructions


def with_client_settings(command: Command | Local, params: Params) -> Command | Local:
    """The command with what its request says about the client's own settings. Raises `InvalidCommand`."""
    if isinstance(command, StartTurn | SubmitPrompt):
        schema = read(params, m.TurnOutput).output_schema
        command = replace(command, output_schema=NOTHING if schema is None else schema)
    if not isinstance(command, CreateThread | ResumeThread | ForkThread | ChangeSettings | StartTurn):
        return command
    given = read(params, m.ClientSettings)
    return replace(command, overrides=with_instructions(command.overrides, given))
