"""`plan`: what the agent intends, step by step, for the people who watch."""

import msgspec
from msgspec.structs import replace

from hames.domain.approvals import Harmless
from hames.domain.items import Plan, PlanEntry, ToolItem, ToolResult
from hames.domain.policy import SandboxPolicy
from hames.ports import Job, Tell, ToolSpec, Work

MAX_STEPS = 50
SIGNS = {"pending": "[ ]", "inProgress": "[~]", "completed": "[x]", "failed": "[!]"}


class PlanTool:
    spec = ToolSpec(
        name="plan",
        description=(
            "Show the user your plan, or how far it has come. Give the whole list every time. Use it for work of "
            "several steps: at the start, and whenever the state of a step changes; one step is `inProgress` at a time."
        ),
        schema={
            "type": "object",
            "properties": {
                "explanation": {
                    "type": "string",
                    "description": "One sentence: what it is for, or what changed.",
                },
                "entries": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_STEPS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "step": {"type": "string", "minLength": 1, "maxLength": 500},
                            "status": {"type": "string", "enum": list(SIGNS)},
                        },
                        "required": ["step", "status"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["entries"],
            "additionalProperties": False,
        },
    )

    async def prepare(self, job: Job) -> Work:
        return _Planning(job)


class _Planning:
    def __init__(self, job: Job) -> None:
        entries = msgspec.convert(job.arguments["entries"], tuple[PlanEntry, ...])
        self._explanation: str = job.arguments.get("explanation", "").strip()
        self.item = Plan(id=job.item_id, step=job.step, call_id=job.call.id, entries=entries)
        self.intent = Harmless()

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:  # noqa: ARG002
        lines = [f"{SIGNS[entry.status]} {entry.step}" for entry in self.item.entries]
        text = "\n".join([self._explanation, "", *lines] if self._explanation else lines)
        await tell(text, "text")
        return replace(self.item, text=text, status="completed", result=ToolResult(text="The plan is shown."))
