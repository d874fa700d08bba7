"""The runner for other languages: its events by name, and what starts a run."""

from hames.protocols.runner import messages as m
from hames.protocols.schema import Published

PUBLISHED = Published(
    name="runner",
    streamed={name: kind for kind, name in m.NAMES.items()},
    also=(m.RunRequest, m.SteerRequest, m.ApprovalAnswer, m.Capabilities, m.KnownThread),
)
