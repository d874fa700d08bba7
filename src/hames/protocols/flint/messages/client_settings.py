"""What a client may bring for its thread or its turn, under Codex's names. Additions to the specification."""

from hames.domain.json import Json
from hames.domain.options import Personality
from hames.protocols.flint.wire import Wire


class ClientSettings(Wire):
    """Members of every request that opens a thread, changes it or starts a turn.

    `developerInstructions` are added to the system prompt, `baseInstructions` take the place of ours.
    """

    developer_instructions: str | None = None
    base_instructions: str | None = None
    personality: Personality | None = None


class ThreadConfig(ClientSettings):
    """Members of the requests that open a thread.

    `config` has keys of Codex's configuration file: `model`, `model_reasoning_effort`, `approval_policy`,
    `sandbox_mode`, `sandbox_workspace_write`, `developer_instructions`, `instructions`, `personality` and
    `mcp_servers`. A notice names the keys that have no effect.
    """

    config: dict[str, Json] | None = None


class TurnOutput(Wire):
    """`outputSchema` is the JSON Schema that the final answer of the turn has to match."""

    output_schema: dict[str, Json] | None = None
