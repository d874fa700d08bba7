"""What a client may bring for its thread or its turn, under Codex's names. Additions to the specification."""

from typing import Annotated

from msgspec import Meta

from hames.domain.json import Json
from hames.domain.options import Personality
from hames.protocols.flint.wire import Wire


class BudgetAmounts(Wire):
    """How much may be used before somebody is asked. 0, or no member: no limit."""

    usd: Annotated[float, Meta(ge=0, lt=1e15)] = 0.0
    tokens: Annotated[int, Meta(ge=0)] = 0
    minutes: Annotated[float, Meta(ge=0, lt=1e15)] = 0.0
    steps: Annotated[int, Meta(ge=0)] = 0


class ThreadBudgets(Wire):
    """Of each turn, and of the whole thread. Where the configuration has a lower limit, that one counts."""

    turn: BudgetAmounts | None = None
    thread: BudgetAmounts | None = None


class ClientSettings(Wire):
    """Members of every request that opens a thread, changes it or starts a turn.

    `developerInstructions` are added to the system prompt, `baseInstructions` take the place of ours.
    """

    developer_instructions: str | None = None
    base_instructions: str | None = None
    personality: Personality | None = None
    budgets: ThreadBudgets | None = None


class DynamicTool(Wire, tag_field="type", tag="function"):
    """A tool that the client carries out: its calls come as the request `item/tool/call`.

    `deferLoading` is Codex's and has no effect: every tool is offered from the start.
    """

    name: str
    description: str
    input_schema: dict[str, Json]
    namespace: str | None = None
    defer_loading: bool | None = None


class DynamicToolNamespace(Wire, tag_field="type", tag="namespace"):
    """Tools with a common name in front of theirs."""

    name: str
    description: str
    tools: list[DynamicTool]


class DynamicToolCallParams(Wire):
    """`callId` is the id of the item. The answer is `{contentItems, success}`."""

    thread_id: str
    turn_id: str
    call_id: str
    tool: str
    namespace: str | None
    arguments: Json


class DynamicToolText(Wire, tag_field="type", tag="inputText"):
    text: str


class DynamicToolImage(Wire, tag_field="type", tag="inputImage"):
    """`imageUrl` is a `data:` URL; the model is only told the address of any other."""

    image_url: str


class DynamicToolCallResult(Wire):
    content_items: list[DynamicToolText | DynamicToolImage]
    success: bool


class ThreadConfig(ClientSettings):
    """Members of the requests that open a thread.

    `config` has keys of Codex's configuration file: `model`, `model_reasoning_effort`, `approval_policy`,
    `sandbox_mode`, `sandbox_workspace_write`, `developer_instructions`, `instructions`, `personality` and
    `mcp_servers`. A notice names the keys that have no effect.
    """

    config: dict[str, Json] | None = None
    dynamic_tools: list[DynamicTool | DynamicToolNamespace] | None = None


class TurnOutput(Wire):
    """`outputSchema` is the JSON Schema that the final answer of the turn has to match."""

    output_schema: dict[str, Json] | None = None
