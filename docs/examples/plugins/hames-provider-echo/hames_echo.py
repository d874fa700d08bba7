"""A provider: `echo/any-model` says what it is told. A real one would ask a service in `stream`."""

from collections.abc import AsyncGenerator, Mapping

from hames.domain.models import ModelCard
from hames.domain.request import ModelEvent, ModelRequest, ReplyEnded, TextBlock, TextDelta, TextEnded
from hames.providers.source import UnlistedSource


class EchoModels(UnlistedSource):
    """Which models there are. It is given the environment: keys and addresses come from there."""

    name = "echo"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.prefix = environment.get("ECHO_PREFIX", "You said: ")

    def named(self, model: str) -> ModelCard:
        return ModelCard(provider=self.name, model=model, display_name=f"Echo {model}")

    def cards(self) -> list[ModelCard]:
        return [self.named("parrot")]

    def provider(self, card: ModelCard) -> "EchoProvider":
        return EchoProvider(self.prefix)


class EchoProvider:
    name = "echo"

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        said = [block.text for block in request.messages[-1].blocks if isinstance(block, TextBlock)]
        yield TextDelta(block=0, text=self.prefix + said[-1])
        yield TextEnded(block=0)
        yield ReplyEnded(reason="end")
