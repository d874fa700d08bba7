"""What every tool promises. Give `check_tool` a workspace that may be changed, and arguments that are right for it."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from hames.domain.ids import CallId, ItemId
from hames.domain.items import Call, Stream, ToolItem
from hames.domain.json import Json
from hames.domain.schema import check
from hames.ports import Job, Place, Tool, ToolFailed


async def check_tool(tool: Tool, place: Place, arguments: Json) -> ToolItem:
    """Raises `AssertionError` for a broken promise. Returns the item as it ended."""
    spec = tool.spec
    assert spec.name.isidentifier(), f"{spec.name!r} is no name that every model service takes"
    assert spec.description.strip()
    assert isinstance(spec.schema, dict)
    assert spec.schema.get("type") == "object"
    assert not check(arguments, spec.schema), "the arguments do not fit the tool's own schema"
    job = Job(
        call=Call(id=CallId("call_1"), name=spec.name, arguments="{}"),
        arguments=arguments,
        item_id=ItemId("item_1"),
        step=3,
        place=place,
    )
    before = _files(place.workspace)
    work = await tool.prepare(job)
    assert _files(place.workspace) == before, "preparing a call changes nothing"
    item = work.item
    assert (item.id, item.step, item.call_id, item.result) == ("item_1", 3, "call_1", None)
    streamed: list[str] = []

    async def tell(text: str, stream: Stream = "output") -> None:
        assert stream in ("text", "summary", "output")
        streamed.append(text)

    try:
        ended = await work.run(tell, place.sandbox)
    except ToolFailed as failure:
        raise AssertionError(f"a failure while it runs is a result, not an exception: {failure}") from None
    assert type(ended) is type(item)
    assert (ended.id, ended.step, ended.call_id) == (item.id, item.step, item.call_id)
    assert ended.status != "running"
    assert ended.result is not None, "there is a result for the model to read"
    assert ended.result.failed == (ended.status != "completed")
    return ended


def _files(directory: str) -> dict[str, tuple[Any, ...]]:
    """Every file below it with what changing it would change."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in Path(directory).rglob("*"):
        with suppress(FileNotFoundError):  # a sandbox takes its placeholders away when it likes
            if path.is_file() and not path.is_symlink():
                found[str(path)] = (path.read_bytes(), path.stat().st_mode, path.stat().st_ino)
    return found
