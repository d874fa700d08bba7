"""From a client's message to commands. The whole message is understood before any of it is carried out."""

import re

import msgspec

from hames.codecs.jsontext import Repeated, Unreadable, clipped, parse, torn, whole
from hames.domain.errors import InvalidCommand
from hames.protocols.sync.messages import Steer, Submit, SyncCommand

MAX_COMMANDS = 100
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Refused(InvalidCommand):
    """`submit_id`: the submit that will not be carried out."""

    def __init__(self, message: str, submit_id: str | None = None) -> None:
        super().__init__(message)
        self.submit_id = submit_id


def decode(text: bytes) -> list[SyncCommand]:
    """Raises `Refused` and nothing else; then nothing is to be carried out.

    >>> decode(b'{"type":"commands","commands":[{"type":"cancel"}]}')
    [Cancel()]
    """
    try:
        text.decode()
    except UnicodeDecodeError:
        raise Refused("messages must be text") from None
    try:
        value = parse(text)
    except (Unreadable, Repeated) as why:
        raise Refused(str(why)) from None
    if torn(text):
        value = whole(value)
    if not isinstance(value, dict) or value.get("type") != "commands" or not isinstance(value.get("commands"), list):
        raise Refused('a message is {"type": "commands", "commands": […]}')
    given = value["commands"]
    if len(given) > MAX_COMMANDS:
        raise Refused(f"a message has at most {MAX_COMMANDS} commands, not {len(given)}")
    return [_command(one) for one in given]


def _command(value: object) -> SyncCommand:
    submit_id = _submit_id(value)
    try:
        command = msgspec.convert(value, SyncCommand)
    except msgspec.ValidationError as why:
        kind = value.get("type") if isinstance(value, dict) else None
        named = f"command {clipped(kind)!r}" if isinstance(kind, str) else "a command"
        raise Refused(f"{named}: {why}", submit_id) from None
    if isinstance(command, Submit | Steer):
        if command.id is not None and not _ID.fullmatch(command.id):
            raise Refused("an id has 1 to 64 letters, digits, `_` and `-`", submit_id)
        if not command.prompt.strip() and not command.attachments:
            raise Refused("the prompt is empty", submit_id)
    return command


def _submit_id(value: object) -> str | None:
    if not isinstance(value, dict) or value.get("type") not in ("submit", "steer"):
        return None
    submit_id = value.get("id")
    return submit_id if isinstance(submit_id, str) else None
