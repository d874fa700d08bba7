"""The real program, as a user starts it, with a real local model behind it."""

import os
import sys
from pathlib import Path

import anyio

from hames.client.bootstrap import BootstrapClient
from hames.protocols.bootstrap import messages as m

HAMES = str(Path(sys.executable).parent / "hames")


async def test_a_prompt_over_stdio_is_answered_by_a_local_model(model_url: str, tmp_path: Path) -> None:
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "LOCAL_BASE_URL": model_url,
        "LOCAL_EXTRA_BODY": '{"tool_choice": "none", "max_tokens": 16}',
    }
    command = [HAMES, "harness", "--cwd", str(tmp_path), "--model", "local/smollm2", "--sandbox", "readOnly"]
    async with BootstrapClient.spawn(command, env=env) as client:
        await client.initialize()
        thread = await client.create_thread(title="Live", directory=str(tmp_path))
        with anyio.fail_after(120):
            events = [event async for event in client.turn(thread.thread_id, "Say hello", agent="code")]
    assert events[-1].method == "turn.completed"
    deltas = [event.params.delta for event in events if isinstance(event.params, m.ItemDelta)]
    assert "".join(deltas).strip()
