"""`artifact`: a file the agent declares as its product."""

import stat

from msgspec.structs import replace

from hames.domain.approvals import Harmless
from hames.domain.items import Artifact, ToolItem, ToolResult
from hames.domain.policy import SandboxPolicy
from hames.ports import Job, Tell, ToolSpec, Work
from hames.ports.workspace import NotRegular
from hames.tools.files.places import PATH, Spot, locate, relative
from hames.tools.works import off_the_loop


class ArtifactTool:
    spec = ToolSpec(
        name="artifact",
        description=(
            "Declare a file as a product of your work, so that the user finds it: a report, a build, a picture. "
            "The file must exist. Do not use it for source files you merely changed."
        ),
        schema={
            "type": "object",
            "properties": {
                "path": {**PATH, "description": "The file, inside the workspace; relative to the working directory."},
                "title": {"type": "string", "maxLength": 200, "description": "What it is, in a few words."},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    )

    async def prepare(self, job: Job) -> Work:
        spot = locate(job.place, job.arguments["path"])
        await off_the_loop(lambda: _refuse_none(job, spot))
        return _Declared(job, spot)


class _Declared:
    def __init__(self, job: Job, spot: Spot) -> None:
        name = relative(job.place, spot.absolute)
        self.item = Artifact(
            id=job.item_id,
            step=job.step,
            call_id=job.call.id,
            path=spot.absolute,
            title=job.arguments.get("title", "") or name,
            media_type=_media_type(spot.path),
            status="running",
        )
        self.intent = Harmless()
        self._done = ToolResult(text=f"{name} is shown as a product.")

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:  # noqa: ARG002
        return replace(self.item, status="completed", result=self._done)


def _media_type(path: str) -> str:
    from mimetypes import guess_type  # four milliseconds that most threads never need

    return guess_type(path)[0] or "application/octet-stream"


def _refuse_none(job: Job, spot: Spot) -> None:
    with spot.open_root() as root:
        if not stat.S_ISREG(root.mode(spot.path)):
            raise NotRegular(f"{relative(job.place, spot.absolute)!r} is not a regular file")
