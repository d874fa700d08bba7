"""An engine with real tools, a real sandbox and a real look at the workspace. Only the model is scripted."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.domain.language_servers import LanguageServerOptions
from hames.domain.models import ModelCard
from hames.domain.options import Settings
from hames.domain.policy import ApprovalPolicy, SandboxPolicy, WorkspaceWrite
from hames.domain.request import ModelRequest, ResultBlock, TextBlock
from hames.ports import Environment, Models, Provider, RuleBook, Store
from hames.sandbox.local import LocalSandbox
from hames.sandbox.walls.network.outside import OutsideNetwork
from hames.store.memory import MemoryStore
from hames.testing.fakes.model import OneModel
from hames.tools.environment import LocalEnvironment
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.registry import NO_SERVERS, STANDARD, BuiltinTools, ToolLimits
from support import NoTrust

WORKSPACE_WRITE = WorkspaceWrite()


@asynccontextmanager
async def situated_engine(
    model: Provider | Models,
    cwd: Path,
    *,
    store: Store | None = None,
    policy: ApprovalPolicy = "never",
    sandbox: SandboxPolicy = WORKSPACE_WRITE,
    window: int = 200_000,
    compact_at: int = 0,
    max_steps: int = 60,
    limits: ToolLimits = STANDARD,
    environment: Environment | None = None,
    language_servers: LanguageServerOptions = NO_SERVERS,
    outside: OutsideNetwork | None = None,
    rulebook: RuleBook | None = None,
) -> AsyncGenerator[Engine]:
    clock, walls = SystemClock(), LocalSandbox(outside=outside)
    if not hasattr(model, "cards"):
        card = ModelCard(provider=model.name, model="test", display_name="Test", context_window=window)
        model = OneModel(model, card)
    engine = Engine(
        store=store or MemoryStore(),
        models=model,
        workspace=LocalWorkspace(),
        tools=BuiltinTools(walls, clock, limits=limits, language_servers=language_servers),
        trust=NoTrust(),
        clock=clock,
        ids=RandomIds(),
        rules=EngineRules(
            defaults=Settings(model=model.default, cwd=str(cwd), approval_policy=policy, sandbox=sandbox),
            max_steps=max_steps,
            compact_at=compact_at,
        ),
        rulebook=rulebook,
        environment=environment or LocalEnvironment(walls, clock, git_seconds=60, git_wait=60),
    )
    async with engine:
        yield engine


def texts(request: ModelRequest) -> list[str]:
    """Every text block that a request shows, in order."""
    return [block.text for message in request.messages for block in message.blocks if isinstance(block, TextBlock)]


def results(request: ModelRequest) -> list[str]:
    return [block.text for message in request.messages for block in message.blocks if isinstance(block, ResultBlock)]


def size(request: ModelRequest) -> int:
    return len(request.system) + sum(len(str(block)) for message in request.messages for block in message.blocks)
