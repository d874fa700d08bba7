"""Drives `hames exec` with PyPI's openai-codex-sdk, which validates what it reads. Prints JSON."""

import asyncio
import json
import sys

from openai_codex_sdk import AbortController, Codex

command, workspace, picture = sys.argv[1:]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
OPTIONS = {"workingDirectory": workspace, "skipGitRepoCheck": True}


async def main():
    told = {}
    codex = Codex({"codexPathOverride": command})
    thread = codex.start_thread(OPTIONS)
    told["greeting"] = (await thread.run("Greet me")).model_dump()
    told["thread"] = thread.id
    told["resumed"] = (await codex.resume_thread(thread.id, OPTIONS).run("Still there?")).model_dump()
    told["schema"] = (await codex.start_thread(OPTIONS).run("Count", {"outputSchema": SCHEMA})).model_dump()
    seen = [{"type": "text", "text": "Look"}, {"type": "local_image", "path": picture}]
    told["image"] = (await codex.start_thread(OPTIONS).run(seen)).model_dump()
    told["command"] = (
        await codex.start_thread({**OPTIONS, "sandboxMode": "workspace-write"}).run("Make a file")
    ).model_dump()
    try:
        await codex.start_thread(OPTIONS).run("Fail")
    except Exception as failure:
        told["failed"] = str(failure)
    stop = AbortController()
    try:
        running = await codex.start_thread(OPTIONS).run_streamed("Wait", {"signal": stop.signal})
        async for event in running.events:
            if event.type == "item.started":
                stop.abort()
    except Exception as failure:
        told["aborted"] = type(failure).__name__
    print(json.dumps(told))


asyncio.run(main())
