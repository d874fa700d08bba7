"""The names and shapes models were trained on: each works for its model, for every other one, and with small slips."""

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hames.core.offered_tools import offered_tools
from hames.domain.arguments import forgive
from hames.domain.events import ItemCompleted, ItemStarted
from hames.domain.items import FileChange, Plan, ToolCall
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Settings
from hames.domain.request import ResultBlock
from hames.ports import Tell
from hames.providers.single_model import SingleModel
from hames.testing.fakes.model import ScriptedModel, call, call_raw, say
from support import PlainTool, created, engine, events, whole_turn
from toolbench import workshop

SETTINGS = Settings(model="a/b", cwd="/")
Trained = tuple[str, dict[str, Json] | str, str]
"""A name, the arguments (or the text) a model gives, and words that its result must have."""

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n def f():\n-    return 1\n+    return 2\n*** End Patch"

CLAUDE: dict[str, Trained] = {
    "Read": ("Read", {"file_path": "a.py"}, "def f():"),
    "Edit": ("Edit", {"file_path": "a.py", "old_string": "return 1", "new_string": "return 2"}, "Edited a.py"),
    "Write": ("Write", {"file_path": "new.py", "content": "x = 1\n"}, "Created new.py"),
    "Bash": ("Bash", {"command": "echo hi", "description": "Say hi", "timeout": 5000}, "hi\n[exit code 0]"),
    "Glob": ("Glob", {"pattern": "**/*.py"}, "a.py"),
    "Grep": ("Grep", {"pattern": "RETURN", "-i": True, "-n": True, "output_mode": "content", "-C": 1}, "return 1"),
    "TodoWrite": ("TodoWrite", {"todos": [{"content": "x", "status": "in_progress", "activeForm": "xing"}]}, "plan"),
}
GPT: dict[str, Trained] = {
    "apply_patch": ("apply_patch", json.dumps({"input": PATCH}), "Patched:\nchanged a.py"),
    "apply_patch in a shell": ("shell", {"command": f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"}, "Patched:\nchanged a.py"),
    "shell": (
        "shell",
        {"command": ["bash", "-lc", "echo hi"], "workdir": ".", "timeout_ms": 5000},
        "hi\n[exit code 0]",
    ),
    "update_plan": ("update_plan", {"explanation": "e", "plan": [{"step": "x", "status": "in_progress"}]}, "plan"),
}
MORE: dict[str, Trained] = {
    "apply_patch as text": ("apply_patch", PATCH, "Patched:\nchanged a.py"),
    "apply_patch in an array": ("shell", {"command": ["apply_patch", PATCH]}, "Patched:\nchanged a.py"),
    "apply_patch by bash": ("Bash", {"command": f'apply_patch "{PATCH}"'}, "Patched:\nchanged a.py"),
    "exec_command": ("exec_command", {"cmd": "echo hi", "yield_time_ms": 1000, "login": True}, "hi\n[exit code 0]"),
    "shell, program": ("shell", {"command": ["echo", "a b"]}, "a b\n[exit code 0]"),
    "container.exec": ("container.exec", {"cmd": ["bash", "-c", "echo hi"]}, "hi\n[exit code 0]"),
    "functions.shell": ("functions.shell", {"command": "echo hi"}, "hi\n[exit code 0]"),
    "MultiEdit": (
        "MultiEdit",
        {"file_path": "a.py", "edits": [{"old_string": "return 1", "new_string": "return 2"}]},
        "Edited a.py",
    ),
    "Edit of a new file": ("Edit", {"file_path": "n.py", "old_string": "", "new_string": "x = 1\n"}, "Created n.py"),
    "LS": ("LS", {"path": ".", "ignore": ["x"]}, "a.py"),
    "list_dir": ("list_dir", {"dir_path": ".", "depth": 2}, "a.py"),
    "read_file": ("read_file", {"absolute_path": "{root}/a.py", "offset": 1, "limit": 100000}, "def f():"),
    "readFile": ("readFile", {"filePath": "a.py"}, "def f():"),
    "write_file": ("write_file", {"file_path": "n.txt", "content": "x"}, "Created n.txt"),
    "replace": ("replace", {"file_path": "a.py", "old_string": "return 1", "new_string": "x"}, "Edited a.py"),
    "view": (
        "str_replace_based_edit_tool",
        {"command": "view", "path": "a.py", "view_range": [2, 2]},
        "     2\t    return 1",
    ),
    "create": (
        "str_replace_based_edit_tool",
        {"command": "create", "path": "n.py", "file_text": "x = 1"},
        "Created n.py",
    ),
    "str_replace": (
        "str_replace_editor",
        {"command": "str_replace", "path": "a.py", "old_str": "return 1", "new_str": "return 2"},
        "Edited a.py",
    ),
    "insert": (
        "str_replace_editor",
        {"command": "insert", "path": "a.py", "insert_line": 1, "new_str": "    x = 1"},
        "changed a.py",
    ),
    "search_file_content": ("search_file_content", {"pattern": "return", "include": "*.py"}, "return 1"),
    "Grep by files": ("Grep", {"pattern": "return", "type": "py", "output_mode": "files_with_matches"}, "a.py"),
    "lower case": ("todowrite", {"todos": [{"content": "x", "status": "done", "id": "1", "priority": "high"}]}, "plan"),
    "upper case": ("READ", {"path": "a.py"}, "def f():"),
    "string for a number": ("read", {"path": "a.py", "offset": "2"}, "     2\t    return 1"),
    "null for an optional": ("read", {"path": "a.py", "offset": None, "limit": None}, "def f():"),
    "an extra that says nothing": ("read", {"path": "a.py", "encoding": None}, "def f():"),
    "an extra that says something": (
        "read",
        {"path": "a.py", "encoding": "latin"},
        "[`encoding` is not known and had no effect]",
    ),
    "encoded twice": ("read", json.dumps(json.dumps({"path": "a.py"})), "def f():"),
    "a list as text": ("plan", {"entries": '[{"step": "x", "status": "pending"}]'}, "plan"),
}


def result_of(model: ScriptedModel) -> ResultBlock:
    [block] = [block for block in model.requests[1].messages[-1].blocks if isinstance(block, ResultBlock)]
    return block


async def told(root: Path, name: str, trained: Trained) -> tuple[ResultBlock, Sequence[object], ScriptedModel]:
    tool, arguments, _ = trained
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    model = ScriptedModel([call_raw(tool, text.replace("{root}", str(root)))], [say("Done.")])
    models = SingleModel(model, ModelCard(provider="p", model=name, display_name=name))
    async with workshop(root) as shop:
        (root / "a.py").write_text("def f():\n    return 1\n")
        async with engine(models, *shop.tools.values(), cwd=root, policy="never") as running:
            thread = await created(running)
            changes = await whole_turn(running, thread.id)
    return result_of(model), changes[-1].after.turns[-1].items, model


def cases() -> list[object]:
    own = [("claude-sonnet-5-5", key, CLAUDE[key]) for key in CLAUDE] + [("gpt-6.1-sol", key, GPT[key]) for key in GPT]
    crossed = [("gpt-6.1-sol", key, CLAUDE[key]) for key in CLAUDE] + [
        ("claude-sonnet-5-5", key, GPT[key]) for key in GPT
    ]
    more = [("some-local-model", key, MORE[key]) for key in MORE]
    return [pytest.param(*one, id=f"{one[0]}-{one[1]}") for one in (*own, *crossed, *more)]


@pytest.mark.parametrize(("model", "key", "trained"), cases())
async def test_a_trained_call_is_understood(tmp_path: Path, model: str, key: str, trained: Trained) -> None:
    result, items, _ = await told(tmp_path / "w", model, trained)
    assert not result.failed, result.text
    assert trained[2] in result.text
    if "patch" in key.lower():
        assert (tmp_path / "w/a.py").read_text() == "def f():\n    return 2\n"
        assert any(isinstance(item, FileChange) for item in items)


async def test_items_have_the_tools_own_names_and_the_model_reads_its_own(tmp_path: Path) -> None:
    _, items, model = await told(tmp_path / "w", "claude-sonnet-5-5", CLAUDE["Read"])
    [item] = [item for item in items if isinstance(item, ToolCall)]
    assert (item.name, item.arguments) == ("read", {"path": "a.py"})
    assert model.requests[1].messages[-2].blocks[0].call.name == "Read"  # type: ignore[union-attr]
    _, items, _ = await told(tmp_path / "v", "gpt-6.1-sol", GPT["update_plan"])
    [plan] = [item for item in items if isinstance(item, Plan)]
    assert [(entry.step, entry.status) for entry in plan.entries] == [("x", "inProgress")]


async def test_each_model_is_offered_its_own_set_and_the_plain_one_is_as_it_was(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        names = {d: [tool.name for tool in offered_tools(shop.tools, d, SETTINGS)] for d in ("", "claude", "gpt")}
        sizes = {d: sum(map(len, map(str, offered_tools(shop.tools, d, SETTINGS)))) for d in names}
    assert names[""][:8] == ["shell", "process", "read", "write", "edit", "patch", "grep", "glob"]
    assert {"Bash", "Read", "Write", "Edit", "Grep", "Glob", "TodoWrite"} <= set(names["claude"])
    assert {"shell", "apply_patch", "update_plan"} <= set(names["gpt"])
    assert not {"patch", "multi_edit", "MultiEdit", "shell"} & set(names["claude"])
    assert not {"patch", "edit", "write", "plan"} & set(names["gpt"])
    assert max(sizes.values()) < 4 * 4_000  # characters, of 4,000 tokens


async def test_a_description_names_the_tools_that_are_offered(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        for dialect in ("", "claude", "gpt"):
            offered = offered_tools(shop.tools, dialect, SETTINGS)
            unknown = set(shop.tools) - {tool.name for tool in offered} - {"glob"}
            for tool in offered:
                named = {word for word in unknown if f"`{word}`" in tool.description}
                assert not named, (dialect, tool.name, named)


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("claude-sonnet-5-5", "claude"),
        ("anthropic.claude-opus-5-v1:0", "claude"),
        ("anthropic/claude-haiku-5-5", "claude"),
        ("gpt-6.1-sol", "gpt"),
        ("openai/gpt-5.2", "gpt"),
        ("gpt-5.1-codex", "gpt"),
        ("o3", "gpt"),
        ("gpt-4.1", ""),
        ("gpt-oss-120b", ""),
        ("qwen3-coder", ""),
        ("llama-4", ""),
    ],
)
def test_the_dialect_follows_from_the_name(name: str, dialect: str) -> None:
    assert ModelCard(provider="p", model=name, display_name="").dialect == dialect


async def test_a_tool_that_the_mode_forbids_is_not_reached_by_another_name(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call("Write", file_path="n", content="x")],
        [call("str_replace_editor", command="create", path="n", file_text="x")],
        [say("Done.")],
    )
    models = SingleModel(model, ModelCard(provider="p", model="claude-x", display_name="x"))
    async with workshop(tmp_path / "w") as shop, engine(models, *shop.tools.values(), cwd=shop.root) as running:
        thread = await created(running, agent="plan")
        await whole_turn(running, thread.id)
    assert not (tmp_path / "w/n").exists()
    for request in model.requests[1:]:
        [block] = [block for block in request.messages[-1].blocks if isinstance(block, ResultBlock)]
        assert "there is no tool" in block.text
        assert "in plan mode" in block.text


async def test_reads_run_side_by_side_and_are_told_in_order(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call("read", path="a"), call("read", path="missing"), call("grep", pattern="b"), call("read", path="b")],
        [say("Done.")],
    )
    models = SingleModel(model, ModelCard(provider="p", model="m", display_name="m"))
    async with workshop(tmp_path / "w") as shop, engine(models, *shop.tools.values(), cwd=shop.root) as running:
        (shop.root / "a").write_text("a\n")
        (shop.root / "b").write_text("b\n")
        thread = await created(running)
        await whole_turn(running, thread.id)
    results = [block for block in model.requests[-1].messages[-1].blocks if isinstance(block, ResultBlock)]
    assert [result.failed for result in results] == [False, True, False, False]
    assert [result.text.strip()[-1] for result in (results[0], results[3])] == ["a", "b"]


async def test_calls_that_only_look_wait_for_nobody_and_are_told_one_after_the_other() -> None:
    met = anyio.Event()

    async def first(arguments: dict[str, object], tell: Tell) -> str:
        with anyio.fail_after(60):
            await met.wait()
        return "first"

    async def second(arguments: dict[str, object], tell: Tell) -> str:
        met.set()
        return "second"

    tools = [PlainTool("first", first), PlainTool("second", second)]
    for tool in tools:
        tool.spec = replace(tool.spec, parallel=True)
    model = ScriptedModel([call("first"), call("second")], [say("Done.")])
    async with engine(model, *tools) as running:
        thread = await created(running)
        changes = await whole_turn(running, thread.id)
    told = [
        (type(event).__name__, event.item.name)
        for event in events(changes)
        if isinstance(event, ItemStarted | ItemCompleted) and isinstance(event.item, ToolCall)
    ]
    assert told == [
        ("ItemStarted", "first"),
        ("ItemCompleted", "first"),
        ("ItemStarted", "second"),
        ("ItemCompleted", "second"),
    ]


async def test_after_a_failed_read_nothing_is_changed(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call("read", path="missing"), call("read", path="a"), call("write", path="n", content="x")], [say("Done.")]
    )
    models = SingleModel(model, ModelCard(provider="p", model="m", display_name="m"))
    async with workshop(tmp_path / "w") as shop, engine(models, *shop.tools.values(), cwd=shop.root) as running:
        (shop.root / "a").write_text("a\n")
        thread = await created(running)
        await whole_turn(running, thread.id)
    results = [block for block in model.requests[-1].messages[-1].blocks if isinstance(block, ResultBlock)]
    assert [result.failed for result in results] == [True, False, True]
    assert "not executed" in results[2].text
    assert not (tmp_path / "w/n").exists()


@pytest.mark.parametrize(
    ("given", "schema", "expected"),
    [
        ({"n": "5"}, {"n": {"type": "integer"}}, {"n": 5}),
        ({"n": "5.5"}, {"n": {"type": "integer"}}, {"n": "5.5"}),
        ({"n": "five"}, {"n": {"type": "integer"}}, {"n": "five"}),
        ({"b": "True"}, {"b": {"type": "boolean"}}, {"b": True}),
        ({"s": 5}, {"s": {"type": "string"}}, {"s": "5"}),
        ({"s": True}, {"s": {"type": "string"}}, {"s": True}),
        ({"l": "x"}, {"l": {"type": "array", "items": {"type": "string"}}}, {"l": ["x"]}),
        ({"l": '["x"]'}, {"l": {"type": "array", "items": {"type": "string"}}}, {"l": ["x"]}),
        ({"o": '{"a": "1"}'}, {"o": {"type": "object", "properties": {"a": {"type": "integer"}}}}, {"o": {"a": 1}}),
        ({"e": "IN_PROGRESS"}, {"e": {"type": "string", "enum": ["inProgress"]}}, {"e": "inProgress"}),
        ({"x": None}, {"x": {"type": ["string", "null"]}}, {"x": None}),
        ({"filePath": "a"}, {"path": {"type": "string"}}, {"path": "a"}),
        ({"filePath": "a", "path": "b"}, {"path": {"type": "string"}}, {"path": "b"}),
    ],
)
def test_slips_are_put_right_where_there_is_no_doubt(given: Json, schema: Json, expected: Json) -> None:
    closed = {"type": "object", "properties": schema, "additionalProperties": False}
    assert forgive(given, closed)[0] == expected


def test_an_open_schema_keeps_what_it_does_not_know() -> None:
    schema: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert forgive({"file": "a", "x": 1}, schema) == ({"file": "a", "x": 1}, ())
