"""A client of sync over a real WebSocket."""

from server_support import SyncFollower


def settled(state: dict[str, object]) -> bool:
    return state["status"] != "running" and bool(state["messages"])


async def submit(client: SyncFollower, prompt: str = "go", **more: object) -> None:
    await client.send({"type": "submit", "prompt": prompt, **more})
