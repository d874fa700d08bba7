"""Decodes the requests of bootstrap into commands. Pure; `InvalidCommand` is all it raises."""

from typing import TypeVar, assert_never

import msgspec
from msgspec import UNSET

from hames.codecs.jsonrpc_peer import Params
from hames.domain import commands
from hames.domain.errors import InvalidCommand, UnknownMethod
from hames.domain.ids import ApprovalId, ThreadId, TurnId
from hames.domain.items import FileInput, ImageInput, LocalImageInput, TextInput, UserInput
from hames.domain.options import Overrides
from hames.domain.value import Value
from hames.protocols.bootstrap import messages, undo
from hames.protocols.instructions import with_instructions

V = TypeVar("V", bound=Value)

EVERY_THREAD = 1 << 31
"""`thread.list` lists all threads: this protocol has no pages to ask for."""

PICTURE_URLS = ("https://", "http://", "data:image/")


class Initialize(Value):
    """The handshake. It is answered without the engine."""

    client: str = ""


def decode(method: str, params: Params) -> commands.Command | Initialize:
    match method:
        case "initialize":
            info = _read(params, messages.InitializeParams).client_info
            return Initialize(client="" if info is UNSET else info.name)
        case "thread.create":
            return _create(_read(params, messages.ThreadCreateParams))
        case "thread.list":
            return commands.ListThreads(limit=EVERY_THREAD, archived=None)
        case "thread.get":
            return commands.ReadThread(thread_id=ThreadId(_read(params, messages.ThreadGetParams).thread_id))
        case "thread.undo":
            return _undo(_read(params, undo.ThreadUndoParams))
        case "turn.start":
            return _start(_read(params, messages.TurnStartParams))
        case "turn.cancel":
            return commands.InterruptTurn(thread_id=ThreadId(_read(params, messages.TurnCancelParams).thread_id))
        case "approval.respond":
            answer = _read(params, messages.ApprovalRespondParams)
            return commands.ResolveApproval(
                approval_id=ApprovalId(answer.request_id),
                decision=answer.decision,
                content=answer.content,
                scope=answer.scope,
            )
        case _:
            raise UnknownMethod(f"no method {method!r}")


def _read(params: Params, shape: type[V]) -> V:
    try:
        return msgspec.convert(params, shape)
    except msgspec.ValidationError as why:
        raise InvalidCommand(str(why)) from None


def _create(params: messages.ThreadCreateParams) -> commands.CreateThread:
    directory = params.directory
    if directory is not UNSET and (not directory.startswith("/") or "\0" in directory):
        raise InvalidCommand("directory must be an absolute path - at `$.directory`")
    return commands.CreateThread(
        title="" if params.title is UNSET else params.title,
        overrides=with_instructions(Overrides(cwd=None if directory is UNSET else directory), params),
    )


def _start(params: messages.TurnStartParams) -> commands.StartTurn:
    content = [_part(part) for part in params.input]
    said = tuple(part for part in content if not (isinstance(part, TextInput) and not part.text.strip()))
    if not said:
        raise InvalidCommand("input is empty - at `$.input`")
    model = params.model
    if model is not UNSET and not (model.provider_id and model.model_id):
        raise InvalidCommand("providerID and modelID must not be empty - at `$.model`")
    return commands.StartTurn(
        thread_id=ThreadId(params.thread_id),
        content=said,
        overrides=with_instructions(
            Overrides(
                model=None if model is UNSET else f"{model.provider_id}/{model.model_id}",
                agent=None if params.agent is UNSET else params.agent,
            ),
            params,
        ),
        output_schema=params.output_schema,
    )


def _undo(params: undo.ThreadUndoParams) -> commands.UndoTurn:
    return commands.UndoTurn(
        thread_id=ThreadId(params.thread_id),
        turn_id=None if params.turn_id is UNSET else TurnId(params.turn_id),
        later=params.later,
        redo=params.redo,
        paths=params.paths,
        overwrite=params.overwrite,
        preview=params.preview,
    )


def _part(part: messages.InputPart) -> UserInput:
    match part:
        case messages.TextPart(text=text):
            return TextInput(text=text)
        case messages.ImagePart(url=url, path=path):
            if url and path is UNSET:
                if not url.lower().startswith(PICTURE_URLS):
                    raise InvalidCommand("url must be an https:, http: or data:image/ URL - at `$.input`")
                return ImageInput(url=url)
            if path and url is UNSET:
                return LocalImageInput(path=_path(path))
            raise InvalidCommand("an image has either a url or a path - at `$.input`")
        case messages.FilePart(path=path):
            return FileInput(path=_path(path))
        case _ as never:
            assert_never(never)


def _path(path: str) -> str:
    if not path or "\0" in path:
        raise InvalidCommand("not a path - at `$.input`")
    return path
