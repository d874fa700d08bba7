"""Threads that were not written by this user on this machine: what was said and done in them, and nothing that decides.

A log can come with a repository. Reading it is harmless; obeying it is not: its settings could switch the questions
off, an approval in it was given by nobody here, and a prompt that waits in it would run with the next one.
"""

from typing import assert_never

from msgspec.structs import replace

from hames.domain import events
from hames.domain.items import Item, Reasoning, UserMessage, WebSearch
from hames.domain.options import Settings

FOREIGN = "This thread was not written by you on this machine. Its settings are ignored; your defaults apply."


def disarmed(record: events.Record, defaults: Settings) -> events.Record:
    """The same record with nothing to obey in it."""
    event = _nameless(_event(record.event, defaults))
    return record if event is record.event else replace(record, event=event)


def _nameless(event: events.Event) -> events.Event:
    """Without who did it: a log that comes from elsewhere can name anybody."""
    return event if getattr(event, "by", None) is None else replace(event, by=None)  # type: ignore[call-arg]


def _event(event: events.Event, defaults: Settings) -> events.Event:
    match event:
        case events.ThreadCreated():
            return replace(event, settings=defaults)
        case events.SettingsChanged():
            return events.SettingsChanged(settings=defaults)
        case events.ApprovalRequested():
            return events.Noticed(
                source="hames", name="approval_ignored", message="a question of a foreign thread is ignored"
            )
        case events.ApprovalResolved():
            return replace(event, grant=None)
        case events.PromptQueued():
            return events.Noticed(
                source="hames", name="prompt_ignored", message="a prompt of a foreign thread is not run"
            )
        case events.NotesRead():
            return events.NotesRead(files=())  # read again when the thread is opened
        case events.ContextAdded():
            # It would speak to the model in our name.
            return events.Noticed(
                source="hames", name="context_ignored", message="a note of a foreign thread is not shown"
            )
        case events.ItemStarted(item=item):
            return replace(event, item=_item(item))
        case events.ItemCompleted(item=item):
            return replace(event, item=_item(item))
        case (
            events.ThreadRenamed()
            | events.ThreadArchived()
            | events.TurnStarted()
            | events.ItemDelta()
            | events.ToolCalled()
            | events.StepVoided()
            | events.UsageReported()
            | events.PromptRemoved()
            | events.QueueHeld()
            | events.Noticed()
            | events.ContextTrimmed()
            | events.TurnEnded()
        ):
            return event
        case _ as never:
            assert_never(never)


def _item(item: Item) -> Item:
    """Without names, and without what a model service wrote for itself: that goes back to it as it is, unread."""
    if isinstance(item, UserMessage):
        return replace(item, by=None)
    return replace(item, opaque=None) if isinstance(item, Reasoning | WebSearch) else item
