"""Whatever a client sends, the connection answers in order, breaks nothing, and serves the next honest request."""

import json
import random

import pytest

from flint_support import talking
from hames.testing.fakes.model import ScriptedModel
from support import engine

GOOD = [
    {"id": 1, "method": "thread/start", "params": {"cwd": "/", "sandbox": {"type": "readOnly"}, "_meta": {"x": 1}}},
    {"id": 2, "method": "thread/resume", "params": {"threadId": "ses_000001", "model": "test"}},
    {"id": 3, "method": "thread/list", "params": {"limit": 2, "archived": False, "cursor": "c"}},
    {"id": 4, "method": "turn/start", "params": {"threadId": "ses_000001", "input": [{"type": "text", "text": "x"}]}},
    {"id": 5, "method": "turn/interrupt", "params": {"threadId": "ses_000001", "turnId": "turn_000003"}},
    {"id": 6, "method": "config/set", "params": {"id": "agent", "value": "plan", "threadId": "ses_000001"}},
    {"id": 7, "method": "review/start", "params": {"threadId": "ses_000001", "target": {"type": "commit", "sha": "a"}}},
    {"id": 8, "method": "thread/fork", "params": {"threadId": "ses_000001", "lastTurnId": "turn_000003"}},
    {
        "id": 9,
        "method": "thread/queue/add",
        "params": {"threadId": "ses_000001", "input": [{"type": "file", "path": "a"}]},
    },
    {"id": "apr_000009", "result": {"decision": "accept"}},
    {"method": "initialized", "params": {}},
]
ODD = [None, True, 0, -1, 1e400, 10**30, "", "x", [], {}, [None], {"type": "text"}, {"_meta": 1}, "\ud800"]


def spoiled(dice: random.Random) -> str:
    """A good message with one value changed for an odd one, or a byte lost."""
    message = json.loads(json.dumps(dice.choice(GOOD)))
    places = [message]
    for place in places:
        inner = place.values() if isinstance(place, dict) else place
        places += [value for value in inner if isinstance(value, dict | list) and value]
    place = dice.choice(places)
    key = dice.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
    place[key] = dice.choice(ODD)
    text = json.dumps(message)
    if dice.random() < 0.2:
        at = dice.randrange(len(text))
        text = text[:at] + text[at + 1 :]
    return text.replace("\n", " ")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["test", "codex-tui"])
async def test_spoiled_messages_do_no_harm(seed: int, name: str, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(seed)
    async with engine(ScriptedModel()) as the_engine, talking(the_engine, name) as talk:
        await talk.start()
        for _ in range(40):
            await talk.say(spoiled(dice))
        await talk.say({"id": "honest", "method": "model/list", "params": {}})
        last = await talk.until(lambda message: message.get("id") == "honest")
        assert last["result"]["data"]
    for message in talk.heard:
        assert "jsonrpc" not in message
        if "method" not in message:
            assert ("result" in message) != ("error" in message)
    crashed = [record.message for record in caplog.records if record.message in ("request.crashed", "change.not_told")]
    assert not crashed
