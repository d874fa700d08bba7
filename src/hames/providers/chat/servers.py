"""Servers that speak chat completions, by name: where they are, and which variables say otherwise.

`NAME/model` is a model of that server. `NAME_EXTRA_BODY` may hold a JSON object of members that
every request to it carries, for what only that server understands.
"""

from hames.domain.value import Value


class ChatServer(Value):
    """`url` ends where `/chat/completions` begins; empty, if only its owner knows."""

    name: str
    title: str
    url: str = ""
    needs_key: bool = False
    tools_hint: str = ""
    """How this server is brought to call tools, for people whose model did not."""

    @property
    def _prefix(self) -> str:
        return self.name.upper().replace("-", "_")

    @property
    def url_variable(self) -> str:
        return f"{self._prefix}_BASE_URL"

    @property
    def key_variable(self) -> str:
        return f"{self._prefix}_API_KEY"

    @property
    def extra_variable(self) -> str:
        return f"{self._prefix}_EXTRA_BODY"


SERVERS: tuple[ChatServer, ...] = (
    ChatServer(
        name="ollama",
        title="Ollama",
        url="http://127.0.0.1:11434/v1",
        tools_hint=" (ollama.com/search?c=tools lists them)",
    ),
    ChatServer(
        name="local",
        title="the local model server",
        url="http://127.0.0.1:8080/v1",
        tools_hint=" (llama-server needs --jinja)",
    ),
    ChatServer(name="compatible", title="the model server"),
    ChatServer(name="lmstudio", title="LM Studio", url="http://127.0.0.1:1234/v1"),
    ChatServer(
        name="vllm",
        title="vLLM",
        url="http://127.0.0.1:8000/v1",
        tools_hint=" (vllm serve needs --enable-auto-tool-choice and --tool-call-parser)",
    ),
    ChatServer(name="openrouter", title="OpenRouter", url="https://openrouter.ai/api/v1", needs_key=True),
    ChatServer(name="groq", title="Groq", url="https://api.groq.com/openai/v1", needs_key=True),
    ChatServer(name="deepseek", title="DeepSeek", url="https://api.deepseek.com/v1", needs_key=True),
    ChatServer(name="mistral", title="Mistral", url="https://api.mistral.ai/v1", needs_key=True),
)
