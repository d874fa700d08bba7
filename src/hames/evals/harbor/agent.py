# pyright: basic, reportMissingImports=false
"""Hames as an agent of Harbor. `harbor` itself is not a dependency of ours: it imports this module, not we it.

    harbor run -d terminal-bench@2.0 --agent hames.evals.harbor.agent:HamesAgent --model PROVIDER/MODEL

The container is the sandbox, so Hames adds none of its own (`externalSandbox`) and asks nothing.
"""

import json
import shlex
from pathlib import Path
from typing import Any

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.agents.model_connection import ModelConnectionSpec
from harbor.agents.options import InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory
from pydantic import Field

from hames import __version__

PATH = 'export PATH="$HOME/.local/bin:$PATH"'
EVENTS, TRAJECTORY, DATA = "hames.jsonl", "trajectory.json", "hames-threads"


class HamesOptions(InstalledAgentOptions):
    package: str | None = Field(
        default=None, description="What is installed in the container: a requirement, or a wheel to upload"
    )


class HamesAgent(BaseInstalledAgent):
    options_model = HamesOptions

    capabilities = AgentCapabilities(atif=True)
    MODEL_CONNECTION = ModelConnectionSpec(passthrough=True)

    def __init__(self, *args: Any, package: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, package=package, **kwargs)
        self._package = package or f"hames=={self._version or __version__}"
        self._is_wheel = Path(self._package).is_file()

    @staticmethod
    def name() -> str:
        return "hames"

    def get_version_command(self) -> str:
        return f"{PATH}; hames --version"

    def parse_version(self, stdout: str) -> str:
        return stdout.strip().removeprefix("hames ")

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("curl", "bash", "git"))
        package = self._package
        if self._is_wheel:
            package = f"/tmp/{Path(package).name}"
            await environment.upload_file(self._package, package)
        await self.exec_as_agent(
            environment,
            command=(
                "set -euo pipefail; "
                "command -v uv > /dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; "
                f"{PATH}; uv tool install {shlex.quote(package)}; hames --version"
            ),
        )

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:  # noqa: ARG002
        logs = self.environment_logs_dir
        threads = shlex.join(["--data-dir", str(logs / DATA)])
        model = shlex.join(["--model", self.model_name]) if self.model_name else ""
        try:
            await self.exec_as_agent(
                environment,
                command=(
                    f"{PATH}; hames run --json --approval-policy never --sandbox externalSandbox {model} {threads} "
                    f"-- {shlex.quote(instruction)} > {shlex.quote(str(logs / EVENTS))} < /dev/null"
                ),
                env=dict(self.model_connection.env),
            )
        finally:
            await self.exec_as_agent(
                environment,
                command=(
                    f"{PATH}; hames threads export last --format trajectory {threads} "
                    f"> {shlex.quote(str(logs / TRAJECTORY))} || true"
                ),
            )

    def populate_context_post_run(self, context: AgentContext) -> None:
        try:
            told = Trajectory.model_validate(json.loads((self.logs_dir / TRAJECTORY).read_text(encoding="utf-8")))
        except (OSError, ValueError) as problem:
            self.logger.debug(f"no trajectory of hames: {problem}")
            return
        if (metrics := told.final_metrics) is not None:
            context.n_input_tokens = metrics.total_prompt_tokens
            context.n_cache_tokens = metrics.total_cached_tokens
            context.n_output_tokens = metrics.total_completion_tokens
            context.cost_usd = metrics.total_cost_usd
