"""The agent asks the user: choices, several of them, words of their own, and nobody to ask."""

from pathlib import Path

import pytest

from hames.domain.approvals import Elicit
from hames.domain.commands import ResolveApproval
from hames.domain.forms import misfit, question
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.policy import Decision
from hames.domain.request import ResultBlock
from hames.providers.single_model import SingleModel
from hames.testing.fakes.model import ScriptedModel, call, say
from support import created, engine, started, turn_end
from support import question as asked
from toolbench import workshop

SIZES: Json = {
    "question": "Which size?",
    "choices": [{"label": "small", "description": "fits a hand"}, {"label": "large"}],
}


async def answered(
    root: Path, name: str, arguments: dict[str, Json], content: Json, decision: Decision = "once"
) -> tuple[str, Elicit]:
    model = ScriptedModel([call(name, **arguments)], [say("Done.")])
    models = SingleModel(model, ModelCard(provider="p", model="m", display_name="m"))
    async with workshop(root) as shop, engine(models, *shop.tools.values(), cwd=root) as running:
        thread = await created(running)
        watcher = await running.watch(thread.id)
        await started(running, thread.id)
        approval = (await asked(watcher)).approval
        assert isinstance(approval.intent, Elicit)
        await running.execute(ResolveApproval(approval_id=approval.id, decision=decision, content=content))
        await turn_end(watcher)
        watcher.close()
    [result] = [block for block in model.requests[-1].messages[-1].blocks if isinstance(block, ResultBlock)]
    assert not result.failed
    return result.text, approval.intent


@pytest.mark.parametrize(
    ("arguments", "content", "said"),
    [
        ({"questions": [{"question": "Why?"}]}, {"answer": "Because"}, "Why?\nBecause"),
        ({"questions": [SIZES]}, {"answer": "small"}, "Which size?\nsmall"),
        ({"questions": [SIZES]}, {"other": "medium"}, "Which size?\nmedium"),
        ({"questions": [{**SIZES, "several": True}]}, {"answer": ["small", "large"]}, "Which size?\nsmall, large"),
        (
            {"questions": [SIZES, {"question": "Why?"}]},
            {"answer_1": "large", "answer_2": "So"},
            "Which size?\nlarge\nWhy?\nSo",
        ),
    ],
)
async def test_what_the_user_says_reaches_the_model(
    tmp_path: Path, arguments: dict[str, Json], content: Json, said: str
) -> None:
    text, _ = await answered(tmp_path / "w", "ask_user", arguments, content)
    assert text == f"The user answered:\n{said}"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (
            "AskUserQuestion",
            {
                "questions": [
                    {
                        "question": "Which size?",
                        "header": "Size",
                        "options": [
                            {"label": "small", "description": "fits"},
                            {"label": "large", "description": "big"},
                        ],
                        "multiSelect": False,
                    }
                ]
            },
        ),
        ("ask_followup_question", {"question": "Which size?", "follow_up": ["small", "large"]}),
        (
            "request_user_input",
            {"questions": [{"id": "x", "header": "h", "question": "Which size?", "options": [{"label": "small"}]}]},
        ),
    ],
)
async def test_questions_in_other_shapes_are_understood(tmp_path: Path, name: str, arguments: dict[str, Json]) -> None:
    text, elicit = await answered(tmp_path / "w", name, arguments, {"answer": "small"})
    assert text == "The user answered:\nWhich size?\nsmall"
    assert elicit.message.startswith("Which size?")


async def test_a_question_that_is_declined_is_no_failure(tmp_path: Path) -> None:
    text, elicit = await answered(tmp_path / "w", "ask_user", {"questions": [SIZES]}, None, "reject")
    assert "did not answer" in text
    assert question(elicit).startswith("the agent asks: Which size? small: fits a hand [answer: one of small, large")
    assert misfit(elicit, {"answer": "huge"})


async def test_where_nobody_is_asked_the_tool_is_not_offered(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hi.")])
    models = SingleModel(model, ModelCard(provider="p", model="m", display_name="m"))
    root = tmp_path / "w"
    async with workshop(root) as shop, engine(models, *shop.tools.values(), cwd=root, policy="never") as running:
        thread = await created(running)
        watcher = await running.watch(thread.id)
        await started(running, thread.id)
        await turn_end(watcher)
        watcher.close()
    assert "ask_user" not in [tool.name for tool in model.requests[0].tools]
