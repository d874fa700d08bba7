"""Drives `hames app-server` with codex-app-server-client of PyPI as it is. Prints what it handed over, as JSON."""

import asyncio
import json
import pathlib
import sys

from codex_app_server_client import CodexAppServer, EventAction
from codex_app_server_client.types.threads import ThreadStartParams, TurnSteerParams

command, workspace, picture, mcp = sys.argv[1:]
told = {}


def said(result):
    kinds = [item["type"] for item in result.items]
    usage = result.usage.total.total_tokens if result.usage else 0
    return {"text": result.final_response, "items": kinds, "status": result.status, "tokens": usage}


async def attempt(name, work):
    try:
        told[name] = await asyncio.wait_for(work(), 60)
    except Exception as error:
        told[name] = {"error": f"{type(error).__name__}: {error}"[:400]}


async def main():
    decision = {"decision": "accept"}
    asked = []

    async def decide(method, params):
        asked.append(method)
        return decision

    async with CodexAppServer(codex_bin=command) as codex:
        for method in ("item/commandExecution/requestApproval", "item/fileChange/requestApproval"):
            codex.low_level.on_server_request(method, decide)

        async def thread(**params):
            return await codex.start_thread(ThreadStartParams(cwd=workspace, **params))

        async def run(prompt, *, thread_params=None, **params):
            talk = await thread(**(thread_params or {}))
            heard = []

            def hear(method, event):
                heard.append(method)

            return {**said(await talk.run(prompt, on_event=hear, **params)), "thread": talk.id, "heard": heard}

        await attempt("text", lambda: run("Greet me"))
        await attempt("command", lambda: run("Make a file"))
        await attempt("file", lambda: run("Write a note"))
        await attempt("read", lambda: run("Read the note"))
        await attempt("plan", lambda: run("Plan"))
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        await attempt("schema", lambda: run("Count", output_schema=schema))
        look = [{"type": "text", "text": "Look"}, {"type": "localImage", "path": picture}]
        await attempt("image", lambda: run(look))
        words = {"developer_instructions": "You are a lighthouse."}
        await attempt("instructions", lambda: run("Greet me", thread_params=words))
        program, *args = json.loads(mcp)
        servers = {"config": {"mcp_servers": {"test": {"command": program, "args": args}}}}
        await attempt("mcp", lambda: run("Add them", thread_params=servers))

        def saved():
            return {one.name for one in pathlib.Path(workspace, ".harness", "threads").glob("ses_*")}

        async def ephemeral():
            before = saved()
            return {**await run("Greet me", thread_params={"ephemeral": True}), "saved": sorted(saved() - before)}

        await attempt("ephemeral", ephemeral)

        async def approvals():
            talk = await thread()
            asked.clear()
            texts = []
            for word, prompt in (
                ("decline", "Ask and be declined"),
                ("accept", "Ask and be approved"),
                ("acceptForSession", "Ask for the session"),
                ("decline", "Ask for the session"),
            ):
                decision["decision"] = word
                texts.append((await talk.run(prompt)).final_response)
            return {"asked": len(asked), "texts": texts}

        await attempt("approvals", approvals)

        async def steer():
            talk = await thread()
            begun = []

            def hear(method, event):
                if method == "item/started" and event.item.get("type") == "commandExecution":
                    steering = TurnSteerParams(
                        thread_id=talk.id, expected_turn_id=event.turn_id, input=[{"type": "text", "text": "Also sing"}]
                    )
                    begun.append(asyncio.ensure_future(codex.low_level.turn_steer(steering)))

            result = said(await talk.run("Take your time", on_event=hear))
            await asyncio.gather(*begun)
            return result

        await attempt("steer", steer)

        async def interrupt():
            def hear(method, event):
                started = method == "item/started" and event.item.get("type") == "commandExecution"
                return EventAction.INTERRUPT if started else None

            return said(await (await thread()).run("Wait", on_event=hear))

        await attempt("interrupt", interrupt)

        async def models():
            listed = await codex.low_level.model_list()
            return {"models": len(listed.data), "defaults": [one.id for one in listed.data if one.is_default]}

        await attempt("models", models)

        async def first():
            talk = await thread()
            await talk.run("Greet me")
            return talk.id

        kept = await first()
    async with CodexAppServer(codex_bin=command) as codex:

        async def resume():
            return said(await (await codex.resume_thread(kept)).run("Still there?"))

        await attempt("resume", resume)
    print(json.dumps(told))


asyncio.run(main())
