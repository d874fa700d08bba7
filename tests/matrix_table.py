"""The matrix as data: every protocol, every kind of model, and the one scenario that each pair of them passes.

`tests/integration/test_matrix.py` plays it, `scripts/matrix.py` writes `docs/matrix.md` from it. What a protocol or a
model does in its own way stands here, where both can see it.
"""

from typing import NamedTuple


class Step(NamedTuple):
    """`is_done`: when a cell has passed it."""

    name: str
    is_done: str


class Protocol(NamedTuple):
    """`shows`: step by step, what a client of it sees. `streams`: words arrive as they are said."""

    title: str
    transport: str
    shows: dict[str, str]
    streams: bool = True


class Model(NamedTuple):
    """`does`: step by step, what it looks like on its side. `rereads`: its earlier thoughts are sent back to it."""

    title: str
    behind: str
    does: dict[str, str]
    rereads: bool = True


STEPS = (
    Step("text", "The reply arrives, word for word."),
    Step("reasoning", "The model's reasoning arrives before its answer."),
    Step(
        "command",
        "The client is asked about a command and approves it; it runs in the sandbox, and its output arrives.",
    ),
    Step("file change", "The client is asked about a file change and approves it; it is made, and the diff arrives."),
    Step(
        "MCP call",
        "The client is asked about an MCP tool and approves it; it is called over stdio, and its result arrives.",
    ),
    Step("interrupt", "A reply is stopped in the middle, and the text so far is kept."),
    Step(
        "resume",
        "Another process opens the thread: everything that clients saw before is there, and the model gets it too.",
    ),
)

PROTOCOLS = {
    "bootstrap": Protocol(
        "bootstrap",
        "`bootstrap harness`, stdin and stdout",
        {
            "text": "`assistant_message`, `kind` `text`",
            "reasoning": "`assistant_message`, `kind` `reasoning`",
            "command": "`approval.requested`, `tool_exec` `bash`, `tool_log`",
            "file change": "`approval.requested`, `tool_exec` `edit` with `changes`",
            "MCP call": "`approval.requested`, `tool_exec` `server/tool`",
            "interrupt": "`turn.cancel`, then `turn.error` with `cancelled`",
            "resume": "`thread.get`: the events again",
        },
    ),
    "flint": Protocol(
        "flint",
        "`hames app-server`, stdin and stdout",
        {
            "text": "`agentMessage`",
            "reasoning": "`reasoning`",
            "command": "`item/commandExecution/requestApproval`, `commandExecution`",
            "file change": "`item/fileChange/requestApproval`, `fileChange`",
            "MCP call": "`item/mcpToolCall/requestApproval`, `mcpToolCall`",
            "interrupt": "`turn/interrupt`, then `turn/completed` with `interrupted`",
            "resume": "`thread/resume`: turns and items",
        },
    ),
    "http": Protocol(
        "HTTP + SSE",
        "`hames serve`, `POST /prompt` and `GET /events`",
        {
            "text": "`text`",
            "reasoning": "`reasoning`",
            "command": "`approval`, `tool_call`, `tool_result`",
            "file change": "`approval`, `tool_call`, `tool_result`",
            "MCP call": "`approval`, `tool_call`, `tool_result`",
            "interrupt": "`POST /cancel`, then `status` `idle` with `cancelled`; text arrives in whole blocks",
            "resume": "`GET /events?after=0`: the events again",
        },
        streams=False,
    ),
    "sync": Protocol(
        "sync",
        "`hames serve`, WebSocket `/ws`",
        {
            "text": "`content` of a message",
            "reasoning": "`reasoning` of a message",
            "command": "`approvals`, a tool call of kind `command`",
            "file change": "`approvals`, a tool call of kind `file` with `changes`",
            "MCP call": "`approvals`, a tool call of kind `mcp`",
            "interrupt": "`cancel`, then `stopReason` `cancelled`",
            "resume": "the first `state`",
        },
    ),
}

MODELS = {
    "anthropic": Model(
        "anthropic",
        "the Messages API",
        {
            "reasoning": "thinking",
            "file change": "our own `write` tool",
            "resume": "the history is sent with the next request, with signed thinking",
        },
    ),
    "openai": Model(
        "openai",
        "the Responses API",
        {
            "reasoning": "summaries; the full reasoning stays encrypted",
            "file change": "our own `write` tool",
            "resume": "the history is sent with the next request, with encrypted reasoning",
        },
    ),
    "compatible": Model(
        "compatible",
        "chat completions: Ollama, vLLM, llama.cpp, LM Studio, …",
        {
            "reasoning": "`reasoning_content`, if the server sends it",
            "file change": "our own `write` tool",
            "resume": "the history is sent with the next request, without reasoning, which this API does not accept",
        },
        rereads=False,
    ),
    "codex": Model(
        "codex",
        "the agent itself: `codex app-server`",
        {
            "reasoning": "summaries",
            "file change": "Codex's own `apply_patch`",
            "resume": "Codex resumes its own thread, which is linked to ours",
        },
    ),
}

CELLS = [(protocol, model) for protocol in PROTOCOLS for model in MODELS]


def render() -> str:
    """The page of the documentation."""
    titles = [model.title for model in MODELS.values()]
    steps = [step.name for step in STEPS]
    lines = [
        "# Any client, any agent",
        "",
        "Every protocol works with every kind of model. Every pair is tested with the same scenario:",
        "",
        *(f"{number}. **{step.name}**: {step.is_done}" for number, step in enumerate(STEPS, 1)),
        "",
        f"| | {' | '.join(titles)} |",
        f"|---|{'---|' * len(titles)}",
        *(f"| **{one.title}** | {' | '.join(f'all {len(STEPS)}' for _ in titles)} |" for one in PROTOCOLS.values()),
        "",
        "The tests (`tests/integration/test_matrix.py`) use real processes and sockets, a local server that speaks",
        "each service's API, a real MCP server, and real commands in the sandbox. For Codex, `make test` replays the",
        "recorded messages of a real `codex app-server`, and `make test-clients` runs the real one.",
        "",
        "## What a client sees",
        "",
        f"| | {' | '.join(one.title for one in PROTOCOLS.values())} |",
        f"|---|{'---|' * len(PROTOCOLS)}",
        f"| over | {' | '.join(one.transport for one in PROTOCOLS.values())} |",
        *(f"| {step} | {' | '.join(one.shows[step] for one in PROTOCOLS.values())} |" for step in steps),
        "",
        "## Where the answer comes from",
        "",
        f"| | {' | '.join(titles)} |",
        f"|---|{'---|' * len(titles)}",
        f"| API | {' | '.join(model.behind for model in MODELS.values())} |",
        *(
            f"| {step} | {' | '.join(model.does[step] for model in MODELS.values())} |"
            for step in steps
            if all(step in model.does for model in MODELS.values())
        ),
        "",
        "Agents of other projects that speak ACP have a [table of their own](reference/acp-agents.md), and so have",
        "[clients of MCP, AG-UI and OpenAI's APIs](reference/request-clients.md).",
    ]
    return "\n".join(lines) + "\n"
