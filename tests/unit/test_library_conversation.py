"""A conversation of the library over several prompts: its end, its failures, and a cancel at any moment."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from hames import Config, Harness, HarnessError, PromptCancelled, ProviderError, TurnBusy, tool
from hames.domain.request import (
    CallBlock,
    ResultBlock,
    TextBlock,
)
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import ProviderServer, talk
from library_support import KEY, add


@pytest.mark.spec(
    "core/manages-conversation",
    "core/prompt-appends-user-message",
    "core/prompt-content",
    "core/prompt-runs-loop",
    "core/prompt-runs-to-completion",
    "core/prompt-returns-without-tool-calls",
    "core/end-no-tool-calls",
    "core/loop-sends-system-and-history",
    "core/loop-executes-each-tool",
    "core/loop-appends-results",
    "core/loop-repeats-after-tools",
    "core/loop-ends-without-tools",
    "core/state-ordered",
    "core/state-user-content",
    "core/state-assistant-content",
    "core/state-append-only",
    "core/harness-reused",
    "core/lifecycle-next-prompt",
    "core/lifecycle-construct-at-start",
    "core/registration-constant",
)
async def test_the_conversation_grows_in_order_over_prompts() -> None:
    model = ScriptedModel(
        [say("Adding."), call("add", a=1), call("add", a=2)], [say("2 and 3")], [say("You're welcome.")]
    )
    harness = Harness(Config(api_key="k", system_prompt="Be brief."), [add], provider=model)
    await harness.prompt("add")
    before = harness.messages
    await harness.prompt("thanks")
    assert harness.messages[: len(before)] == before
    assert [message.role for message in harness.messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    first, asked, results, answer, *_ = harness.messages
    assert first.blocks == (TextBlock(text="add"),)
    assert [type(block) for block in asked.blocks] == [TextBlock, CallBlock, CallBlock]
    assert [block.text for block in results.blocks if isinstance(block, ResultBlock)] == ["2", "3"]
    assert answer.blocks == (TextBlock(text="2 and 3"),)
    assert [request.system for request in model.requests] == ["Be brief."] * 3
    assert model.requests[2].messages == harness.messages[:5]
    assert all(request.tools == model.requests[0].tools != () for request in model.requests)


@pytest.mark.spec("core/config-max-turns", "core/prompt-returns-at-max-turns", "core/end-max-turns")
async def test_an_endless_loop_ends_at_max_turns_without_an_error() -> None:
    model = ScriptedModel(*[[call("add", a=n)] for n in range(3)])
    await Harness(Config(api_key="k", max_turns=3), [add], provider=model).prompt("go")
    model.assert_finished()


@pytest.mark.spec("core/prompt-error-on-api-failure", "core/end-unrecoverable-error")
async def test_an_api_failure_is_raised_and_the_harness_can_be_used_again() -> None:
    async with ProviderServer(ANTHROPIC, ANTHROPIC.refusal(401), talk("ok")) as server:
        harness = Harness(Config(api_key="wrong", base_url=server.url))
        with pytest.raises(ProviderError) as caught:
            await harness.prompt("go")
        assert caught.value.status == 401
        await harness.prompt("again")


@pytest.mark.spec("core/prompt-one-at-a-time", "core/prompt-busy-error")
async def test_a_second_prompt_while_one_runs_is_an_error() -> None:
    model = ScriptedModel([hang()])
    harness = Harness(KEY, provider=model)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.prompt, "one")
        with anyio.fail_after(60):
            await model.hanging.wait()
        with pytest.raises(TurnBusy):
            await harness.prompt("two")
        tasks.cancel_scope.cancel()
    assert len(model.requests) == 1


@pytest.mark.spec("core/cancel-running", "core/prompt-error-on-cancel", "core/tool-execute-cancel")
async def test_cancel_stops_the_running_tool_and_prompt_raises() -> None:
    stopped = anyio.Event()
    begun = anyio.Event()

    @tool
    async def wait() -> str:
        """Waits for ever."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()
        return ""

    harness = Harness(KEY, [wait], provider=ScriptedModel([call("wait")], [say("ok")]))
    errors: list[HarnessError] = []

    async def prompt() -> None:
        try:
            await harness.prompt("go")
        except PromptCancelled as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(prompt)
        with anyio.fail_after(60):
            await begun.wait()
        harness.cancel()
    assert stopped.is_set()
    assert len(errors) == 1
    await harness.prompt("again")


@pytest.mark.spec("core/prompt-cancel-context")
async def test_cancelling_the_task_cancels_the_prompt_and_leaves_a_valid_history() -> None:
    model = ScriptedModel([say("half", cut=True), hang()], [say("ok")])
    harness = Harness(KEY, provider=model)
    with anyio.move_on_after(0.05):
        await harness.prompt("go")
    assert model.open_streams == 0
    await harness.prompt("again")
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "user"]


@pytest.mark.spec("core/cancel-running")
@pytest.mark.parametrize("steps", range(1, 9))
async def test_a_cancel_counts_from_the_first_moment_on(steps: int) -> None:
    model = ScriptedModel([hang()])
    harness = Harness(KEY, provider=model)

    async def prompt() -> None:
        with pytest.raises(PromptCancelled):
            await harness.prompt("go")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt)
            for _ in range(steps):
                await checkpoint()
            harness.cancel()


@pytest.mark.parametrize("steps", range(24))
async def test_a_prompt_whose_task_is_cancelled_at_any_moment_leaves_no_running_turn(steps: int) -> None:
    harness = Harness(KEY, provider=ScriptedModel([hang()]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.prompt, "go")
        for _ in range(steps):
            await checkpoint()
        tasks.cancel_scope.cancel()
    assert harness._state is None or harness._state.running is None


@pytest.mark.spec("core/cancel-idle-safe")
async def test_cancel_is_safe_when_nothing_runs() -> None:
    harness = Harness(KEY, provider=ScriptedModel([say("ok")]))
    harness.cancel()
    await harness.prompt("go")
    harness.cancel()
