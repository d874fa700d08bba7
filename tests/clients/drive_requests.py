"""AG-UI's own package for Python reads the events of a run; prints the kinds that it understood."""

import json
import sys
import urllib.request

from ag_ui.core import Event, RunAgentInput, UserMessage
from pydantic import TypeAdapter

url = sys.argv[1]
message = UserMessage(id="m1", role="user", content="Greet me")
given = RunAgentInput(thread_id="agui-python", run_id="r1", messages=[message], tools=[], context=[], state={})
body = given.model_dump_json(by_alias=True, exclude_none=True).encode()
request = urllib.request.Request(f"{url}/agui", data=body, headers={"content-type": "application/json"})
adapter = TypeAdapter(Event)
kinds, text = [], ""
with urllib.request.urlopen(request) as response:
    for line in response:
        if line.startswith(b"data: "):
            event = adapter.validate_json(line[6:])
            kinds.append(event.type.value)
            text += event.delta if event.type.value == "TEXT_MESSAGE_CONTENT" else ""
print(json.dumps({"kinds": kinds, "text": text}))
