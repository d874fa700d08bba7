"""The example packages of the documents keep the promises of what they add."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hames.domain.ids import ThreadId, TurnId
from hames.domain.items import AgentMessage, ToolCall
from hames.domain.options import Settings
from hames.domain.policy import ReadOnly
from hames.domain.request import Message, ModelRequest, TextBlock
from hames.domain.state import blank
from hames.ports import Place
from hames.testing.checks.agent import check_agent
from hames.testing.checks.provider import check_provider
from hames.testing.checks.session import check_session
from hames.testing.checks.tool import check_tool
from hames.testing.fakes.model import ScriptedModel, say
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.host import as_tool
from support import created, engine, started

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "plugins"


def example(package: str) -> Any:
    path = next((EXAMPLES / package).glob("*.py"))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_tool(tmp_path: Path) -> None:
    place = Place(
        files=LocalWorkspace(),
        thread_id=ThreadId("t"),
        turn_id=TurnId("u"),
        workspace=str(tmp_path),
        cwd=str(tmp_path),
        sandbox=ReadOnly(),
    )
    tool = as_tool(example("hames-tool-weekday").weekday, vouched=False)
    done = await check_tool(tool, place, {"day": "2026-11-16"})
    assert isinstance(done, ToolCall)
    assert done.result is not None
    assert done.result.text == "Monday"
    failed = await check_tool(tool, place, {"day": "soon"})
    assert failed.status == "failed"


async def test_the_provider() -> None:
    source = example("hames-provider-echo").EchoModels({})
    request = ModelRequest(model="any", messages=(Message(role="user", blocks=(TextBlock(text="hi"),)),))
    reply = await check_provider(source.provider(source.named("any")), request)
    assert "You said: hi" in str(reply)


async def test_the_agent() -> None:
    agent = example("hames-agent-shout").ShoutAgent({})
    state = replace(blank(ThreadId("ses_1")), settings=Settings(model="shout/default", cwd="/"))
    turn = await check_agent(agent, state)
    assert [item.text for item in turn.state.turns[-1].items if isinstance(item, AgentMessage)] == ["GO"]


async def test_the_protocol() -> None:
    module = example("hames-protocol-chat")
    async with engine(ScriptedModel([say("hi")])) as opened:
        thread = await created(opened)
        await started(opened, thread.id)
        await opened.wait(thread.id)
        history = list(await opened.history(thread.id))
        request = b'{"jsonrpc":"2.0","id":1,"method":"say","params":{"text":"hi"}}'
        check_session(lambda: module.ChatSession(opened.models, opened.rules.defaults), [request], history)
