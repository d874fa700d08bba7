"""The agents that speak ACP: those of the configuration, and those that are found on this machine."""

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio

from hames.agents.acp.known import KNOWN, find_known
from hames.config.agents import AgentProgram
from hames.config.load import Options
from hames.domain.errors import HarnessError
from hames.ports import Agent
from hames.ports.sandbox import ProcessGuard
from hames.providers.source import ModelSource

CHECK_SECONDS = 120.0
"""OpenCode without a network took 57 s: it waits for its list of models."""


def acp_programs(options: Options) -> dict[str, AgentProgram]:
    """By name. An agent of the configuration takes the place of one that is found."""
    found = {
        agent.name: AgentProgram(command=tuple(command))
        for agent, command in find_known(options.environment, str(options.cwd))
        if agent.name not in options.own_providers
    }
    return {**found, **options.agents}


def open_acp_agents(
    options: Options, *, memory: Callable[[str], Path | None], guard: ProcessGuard
) -> Mapping[str, Agent]:
    if not (programs := acp_programs(options)):
        return {}
    from hames.agents.acp.agent import AcpAgent
    from hames.agents.acp.models import CatalogFile

    return {
        name: AcpAgent(
            name,
            program.command,
            memory=partial(memory, name),
            environment={**options.environment, **program.env},
            catalog=CatalogFile(_catalog_path(options, name, program)),
            version=program.version,
            guard=guard,
            after_crash=options.after_crash,
        )
        for name, program in programs.items()
    }


def acp_models(options: Options) -> list[ModelSource]:
    """Each agent's part of the list of models."""
    if not (programs := acp_programs(options)):
        return []
    from hames.agents.acp.agent import AcpAgent
    from hames.agents.acp.models import AcpModels, CatalogFile

    sources: list[ModelSource] = []
    for name, program in programs.items():
        environment = {**options.environment, **program.env}
        agent = AcpAgent(name, program.command, memory=lambda: None, environment=environment, version=program.version)
        file = CatalogFile(_catalog_path(options, name, program))
        sources.append(AcpModels(name, program.command, file=file, start=agent.start))
    return sources


def missing_agent(name: str) -> str:
    """How to get an agent that is known and not installed; empty for one that nobody knows."""
    known = next((one for one in KNOWN if one.name == name), None)
    if known is None:
        return ""
    return f"{known.title} is not installed: {known.install}. Sign in: {known.sign_in}"


def _catalog_path(options: Options, name: str, program: AgentProgram) -> Path:
    """What another command or home offers may be something else."""
    told = "\0".join((*program.command, options.environment.get("HOME", ""), str(program.version)))
    return options.state_dir / "models" / f"agent-{name}-{zlib.crc32(told.encode()):08x}.json"


async def check_acp_agent(name: str, program: AgentProgram, options: Options) -> str:
    """Starts the agent, and says in words what it speaks and whether a session can be opened. Raises nothing."""
    import tempfile

    from hames.agents.acp.agent import AcpAgent
    from hames.agents.process import ProgramRefused

    environment = {**options.environment, **program.env}
    agent = AcpAgent(name, program.command, memory=lambda: None, environment=environment, version=program.version)
    try:
        with tempfile.TemporaryDirectory() as empty, anyio.fail_after(CHECK_SECONDS):
            async with agent.start(empty) as connection:
                about = f"{connection.title or name} speaks version {connection.version} of ACP"
                try:
                    await connection.new_session(empty, ())
                except ProgramRefused as refusal:
                    return f"{about}; {connection.refusal(refusal)}"
                return f"{about}; ready"
    except TimeoutError:
        return f"{name} did not answer within {CHECK_SECONDS:g} s"
    except HarnessError as problem:
        return str(problem)
