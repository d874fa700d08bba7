"""Drives `hames exec` with PyPI's openai-codex-sdk, which validates what it reads: COMMAND WORKSPACE PICTURE.

Prints what it handed over, as JSON, a member for each thing that was tried.
"""

import asyncio
import json
import sys

from openai_codex_sdk import AbortController, Codex

command, workspace, picture = sys.argv[1:]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
OPTIONS = {"workingDirectory": workspace, "skipGitRepoCheck": True}
told = {}
codex = Codex({"codexPathOverride": command})


def said(turn):
    found = turn.model_dump()
    return {**found, "text": found["final_response"]}


async def attempt(name, work):
    try:
        told[name] = await asyncio.wait_for(work(), 60)
    except Exception as error:
        told[name] = {"error": f"{type(error).__name__}: {error}"[:600]}


async def run(prompt, **options):
    return said(await codex.start_thread(OPTIONS).run(prompt, options or None))


async def resume():
    thread = codex.start_thread(OPTIONS)
    await thread.run("Greet me")
    return said(await codex.resume_thread(thread.id, OPTIONS).run("Still there?"))


async def interrupt():
    stop = AbortController()
    try:
        running = await codex.start_thread(OPTIONS).run_streamed("Wait", {"signal": stop.signal})
        async for event in running.events:
            if event.type == "item.started":
                stop.abort()
    except Exception as failure:
        return {"aborted": type(failure).__name__ == "AbortError"}
    return {"aborted": False}


async def main():
    await attempt("text", lambda: run("Greet me"))
    await attempt("command", lambda: run("Make a file"))
    await attempt("file", lambda: run("Write a note"))
    await attempt("read", lambda: run("Read the note"))
    await attempt("plan", lambda: run("Plan"))
    await attempt("schema", lambda: run("Count", outputSchema=SCHEMA))
    seen = [{"type": "text", "text": "Look"}, {"type": "local_image", "path": picture}]
    await attempt("image", lambda: run(seen))
    await attempt("resume", resume)
    await attempt("interrupt", interrupt)
    print(json.dumps(told))


asyncio.run(main())
