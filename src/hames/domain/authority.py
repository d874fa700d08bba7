"""What decides in a thread: its settings, and what was allowed for good. Pure."""

from msgspec.structs import replace

from hames.domain.events import ApprovalResolved, Record, SettingsChanged, ThreadCreated
from hames.domain.grants import changed_servers, without_servers
from hames.domain.options import Settings
from hames.domain.policy import Grant, ReadOnly
from hames.domain.value import Value


class Authority(Value):
    """As of the record with the number `seq`."""

    seq: int
    settings: Settings
    grants: tuple[Grant, ...] = ()


def authority_after(before: Authority | None, record: Record) -> Authority | None:
    """None: no record has decided anything yet."""
    event = record.event
    if isinstance(event, ThreadCreated):
        return Authority(seq=record.seq, settings=event.settings)
    if before is None:
        return None
    if isinstance(event, SettingsChanged):
        return Authority(
            seq=record.seq, settings=event.settings, grants=grants_after(before.settings, before.grants, event)
        )
    if isinstance(event, ApprovalResolved) and event.grant is not None and event.grant not in before.grants:
        return replace(before, seq=record.seq, grants=(*before.grants, event.grant))
    return before


def grants_after(settings: Settings, grants: tuple[Grant, ...], event: SettingsChanged) -> tuple[Grant, ...]:
    """What is still allowed for good after this change."""
    if event.grants is not None:
        return event.grants
    return without_servers(grants, changed_servers(settings, event.settings))


def withdrawn(settings: Settings) -> SettingsChanged:
    """After lines that were lost: one of them may have taken back what was allowed, so nothing is allowed any more.

    The person is asked about everything and commands write nothing, until somebody chooses again.
    """
    careful = replace(settings, approval_policy="always", sandbox=ReadOnly(), mcp_servers=())
    return SettingsChanged(settings=careful, grants=())
