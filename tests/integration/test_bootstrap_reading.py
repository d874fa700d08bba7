"""Reading a thread while it runs takes nothing away from what is told of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("gets", [1, 8])
def test_every_notification_comes_once_however_often_the_thread_is_fetched(tmp_path: Path, gets: int) -> None:
    (tmp_path / "script.json").write_text(
        json.dumps({"conversations": [{"when": "", "replies": [[{"say": "one two three four", "pace_ms": 2}]]}]})
    )
    server = subprocess.Popen(
        [sys.executable, "-m", "hames", "harness", "--cwd", str(tmp_path), "--model", "scripted/script.json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def say(number: int, method: str, **params: object) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"

    server.stdin.write(say(1, "thread.create"))
    server.stdin.flush()
    thread_id = json.loads(server.stdout.readline())["result"]["thread"]["threadId"]
    for turn in range(6):
        fetches = "".join(say(100 + turn * 20 + n, "thread.get", threadId=thread_id) for n in range(gets))
        prompt = [{"type": "text", "text": "go"}]
        server.stdin.write(say(10 + turn, "turn.start", threadId=thread_id, input=prompt) + fetches)
        server.stdin.flush()
        heard: list[dict[str, object]] = []
        answered = 0
        while answered < gets or not any(m.get("method") == "turn.completed" for m in heard):
            message = json.loads(server.stdout.readline())
            answered += isinstance(message.get("id"), int) and message["id"] >= 100
            heard.append(message)
        told = [m["method"] for m in heard if "method" in m]
        assert told.count("turn.started") == told.count("turn.completed") == 1
        assert told.count("item.started") == told.count("item.completed") == 2
    server.stdin.close()
    server.wait(10)
    server.stdout.close()
