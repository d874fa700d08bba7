"""A client's commands as the engine's: what each means for one thread."""

from collections.abc import Callable
from typing import assert_never

from hames.domain import commands
from hames.domain.ids import ApprovalId, PromptId, ThreadId
from hames.domain.items import FileInput, LocalImageInput, TextInput, UserInput
from hames.domain.json import NOTHING
from hames.domain.options import Overrides
from hames.protocols.instructions import with_instructions
from hames.protocols.sync import messages as m

PicturePath = Callable[[str], str]
"""Where the uploaded picture of this id lies. Raises `HarnessError`."""


def command(given: m.SyncCommand, thread_id: ThreadId, picture_path: PicturePath) -> commands.Command:
    match given:
        case m.Submit():
            return commands.SubmitPrompt(
                thread_id=thread_id,
                content=_content(given, picture_path),
                client_id=given.id,
                output_schema=NOTHING if given.output_schema is None else given.output_schema,
            )
        case m.Steer(id=name):
            return commands.SteerTurn(thread_id=thread_id, content=_content(given, picture_path), client_id=name)
        case m.Cancel():
            return commands.InterruptTurn(thread_id=thread_id)
        case m.Approve(id=name, decision=decision, note=note, content=content, scope=scope):
            return commands.ResolveApproval(
                approval_id=ApprovalId(name), decision=decision, note=note, content=content, scope=scope
            )
        case m.Configure():
            overrides = Overrides(
                model=given.model,
                approval_policy=given.approval_policy,
                sandbox=given.sandbox,
                agent=given.agent,
                options=given.options,
            )
            return commands.ChangeSettings(thread_id=thread_id, overrides=with_instructions(overrides, given))
        case m.Dequeue(id=name):
            return commands.DropPrompt(thread_id=thread_id, prompt_id=PromptId(name))
        case m.Rename(title=title):
            return commands.RenameThread(thread_id=thread_id, title=title)
        case m.Compact():
            return commands.CompactThread(thread_id=thread_id)
        case m.Review(target=target):
            return commands.StartReview(
                thread_id=thread_id, target=commands.ReviewTarget(kind=target.kind, text=target.text)
            )
        case _ as never:
            assert_never(never)


def _content(given: m.Submit | m.Steer, picture_path: PicturePath) -> tuple[UserInput, ...]:
    content: list[UserInput] = [TextInput(text=given.prompt)] if given.prompt else []
    for attached in given.attachments:
        match attached:
            case m.ImageAttachment(id=name):
                content.append(LocalImageInput(path=picture_path(name)))
            case m.FileAttachment(path=path):
                content.append(FileInput(path=path))
    return tuple(content)
