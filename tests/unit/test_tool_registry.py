"""The set of tools as the model and the engine see it, and the two that only talk."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from hames.domain.approvals import Harmless
from hames.domain.items import Artifact, Plan, PlanEntry
from hames.domain.json import Json
from toolbench import workshop


async def test_every_tool_describes_itself_in_valid_schema_and_closes_it(tmp_path: Path) -> None:
    def closed(schema: Json) -> bool:
        if isinstance(schema, dict):
            if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
                return False
            return all(map(closed, schema.values()))
        return True

    async with workshop(tmp_path / "w") as shop:
        assert list(shop.tools) == [
            *("shell", "process", "read", "write", "edit", "multi_edit", "patch"),
            *("grep", "glob", "list", "plan", "artifact", "web_fetch", "ask_user"),
        ]
        for name, tool in shop.tools.items():
            Draft202012Validator.check_schema(tool.spec.schema)
            assert closed(tool.spec.schema), name
            assert set(tool.spec.schema["required"]) <= set(tool.spec.schema["properties"])
            assert len(tool.spec.description) > 60
            assert re.fullmatch("[a-z_]+", name)


async def test_only_tools_that_change_files_themselves_are_kept_from_readers(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert {name for name, tool in shop.tools.items() if tool.spec.writes} == {
            *("write", "edit", "multi_edit", "patch")
        }


async def test_a_client_that_looks_for_a_shell_and_a_writer_finds_them(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        having = [name for name, tool in shop.tools.items() if "command" in tool.spec.schema["properties"]]
        assert having[0] == "shell"
        assert {"path", "content"} == set(shop.tools["write"].spec.schema["properties"])


async def test_a_plan_is_told_as_text_and_kept_as_entries(tmp_path: Path) -> None:
    entries = [{"step": "look", "status": "completed"}, {"step": "mend", "status": "inProgress"}]
    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("plan", explanation="Mend it", entries=entries)
        assert work.intent == Harmless()
        done = await shop.run(work)
    assert done.told == "Mend it\n\n[x] look\n[~] mend"
    assert isinstance(done.item, Plan)
    assert done.item.entries == (
        PlanEntry(step="look", status="completed"),
        PlanEntry(step="mend", status="inProgress"),
    )
    assert (done.item.status, done.item.text, done.failed) == ("completed", done.told, False)


@pytest.mark.parametrize(
    "entries", [[], [{"step": "x"}], [{"step": "", "status": "pending"}], [{"step": "x", "status": "?"}]]
)
async def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path, entries: Json) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert (await shop.do("plan", entries=entries)).failed


async def test_a_product_is_declared(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "report.html").write_text("<p>")
        done = await shop.do("artifact", path="report.html", title="The report")
        assert isinstance(done.item, Artifact)
        assert (done.item.path, done.item.title, done.item.media_type, done.item.status) == (
            str(shop.root / "report.html"),
            "The report",
            "text/html",
            "completed",
        )
        untitled = await shop.do("artifact", path="report.html")
        assert isinstance(untitled.item, Artifact)
        assert untitled.item.title == "report.html"


@pytest.mark.parametrize("path", ["gone", ".", "/etc/passwd", "link"])
async def test_only_a_file_of_the_workspace_can_be_a_product(tmp_path: Path, path: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "link").symlink_to("/etc/passwd")
        assert (await shop.do("artifact", path=path)).failed
