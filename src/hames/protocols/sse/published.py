"""HTTP + SSE for other languages: every event of the stream, and the bodies of the requests."""

from typing import get_args

from hames.protocols.approvals import ApprovalAnswer
from hames.protocols.schema import Published
from hames.protocols.sse import messages as m

PUBLISHED = Published(
    name="sse",
    unions={"Event": get_args(m.SseEvent)},
    also=(m.Prompt, ApprovalAnswer),
)
