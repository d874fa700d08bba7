"""The catalogue with what installed packages add (entry points `hames.providers` and `hames.agents`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hames.plugins import Plugins
from hames.ports import Agent, Clock
from hames.providers.agent_models import AgentModels
from hames.providers.catalogue import Catalogue
from hames.providers.source import ModelSource


class InstalledCatalogue(Catalogue):
    """Packages are looked for when a model is asked for that nothing else has, or all models are to be listed."""

    def __init__(
        self,
        environment: Mapping[str, str],
        plugins: Plugins,
        *,
        clock: Clock,
        sources: Sequence[ModelSource] = (),
        cache: Path | None = None,
    ) -> None:
        super().__init__(environment, clock=clock, sources=sources, cache=cache)
        self.plugins = plugins
        self.agents: dict[str, Agent] = {}
        """Agents that run the turns of their models, by the provider's part of the model's name."""

    def added_sources(self) -> Sequence[ModelSource]:
        found: list[ModelSource] = []
        for name, make in self.plugins.load("providers"):
            try:
                source: ModelSource = make(self.environment)
                _ = source.name, source.usable, source.cards(), source.selectors()  # fails now or never
                found.append(source)
            except Exception as problem:  # somebody else's code
                self.plugins.refuse("providers", name, problem)
        for name, make in self.plugins.load("agents"):
            try:
                agent: Agent = make(self.environment)
                found.append(AgentModels(agent.name, display_name=name, description=f"The agent {name!r}"))
                self.agents[agent.name] = agent
            except Exception as problem:  # somebody else's code
                self.plugins.refuse("agents", name, problem)
        return found
