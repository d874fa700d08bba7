"""Drives `hames app-server` with the official Codex SDK for Python as it is: COMMAND WORKSPACE PICTURE MCP.

Prints what it handed over, as JSON, a member for each thing that was tried.
"""

import json
import pathlib
import sys
import threading

from openai_codex import Codex, CodexConfig, LocalImageInput, TextInput
from openai_codex.api import Thread
from openai_codex.client import CodexClient

command, workspace, picture, mcp = sys.argv[1:]
config = CodexConfig(codex_bin=command, cwd=workspace)
told = {}


def said(result):
    kinds = [getattr(item, "root", item).type for item in result.items]
    tokens = result.usage.total.total_tokens if result.usage else 0
    return {"text": result.final_response, "items": kinds, "tokens": tokens, "status": result.status.value}


def attempt(name, work):
    done = {}

    def guarded():
        try:
            done.update(work())
        except Exception as error:
            done["error"] = f"{type(error).__name__}: {error}"[:600]

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(60)
    told[name] = done or {"error": "it took too long"}


def saved():
    return {one.name for one in pathlib.Path(workspace, ".harness", "threads").glob("ses_*")}


def streamed(handle, on_command=lambda handle: None):
    """A turn event by event. The SDK's own `run` collects the same events."""
    methods, text, status = [], "", ""
    for event in handle.stream():
        methods.append(event.method)
        payload = event.payload
        if event.method == "item/started" and payload.item.root.type == "commandExecution":
            on_command(handle)
        if event.method == "item/completed" and payload.item.root.type == "agentMessage":
            text = payload.item.root.text
        if event.method == "turn/completed":
            status = payload.turn.status.value
    return {"text": text, "methods": methods, "status": status}


def approvals():
    asked, decision = [], {}

    def decide(method, params):
        asked.append(params.get("command"))
        return dict(decision)

    with CodexClient(config, approval_handler=decide) as client:
        client.initialize()
        thread = Thread(client, client.thread_start({"cwd": workspace}).thread.id)
        for word, prompt in (
            ("decline", "Ask and be declined"),
            ("accept", "Ask and be approved"),
            ("acceptForSession", "Ask for the session"),
            ("decline", "Ask for the session"),
        ):
            decision["decision"] = word
            thread.run(prompt)
    return {"asked": asked}


with Codex(config) as codex:

    def run(prompt, *, thread=None, **options):
        return said(codex.thread_start(cwd=workspace, **(thread or {})).run(prompt, **options))

    def ephemeral():
        before = saved()
        return {**run("Greet me", thread={"ephemeral": True}), "saved": sorted(saved() - before)}

    def kept():
        thread = codex.thread_start(cwd=workspace)
        thread.run("Greet me")
        return {"thread": thread.id, "listed": [listed.id for listed in codex.thread_list().data]}

    def models():
        found = codex.models().data
        return {"models": [model.id for model in found], "defaults": [one.id for one in found if one.is_default]}

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    program, *args = json.loads(mcp)
    servers = {"mcp_servers": {"test": {"command": program, "args": args}}}
    attempt("text", lambda: run("Greet me"))
    attempt("command", lambda: run("Make a file"))
    attempt("file", lambda: run("Write a note"))
    attempt("read", lambda: run("Read the note"))
    attempt("plan", lambda: streamed(codex.thread_start(cwd=workspace).turn("Plan")))
    attempt("schema", lambda: run("Count", output_schema=schema))
    attempt("image", lambda: run([TextInput("Look"), LocalImageInput(picture)]))
    attempt("instructions", lambda: run("Greet me", thread={"developer_instructions": "You are a lighthouse."}))
    attempt("base", lambda: run("Greet me", thread={"base_instructions": "You are a whale."}))
    attempt("mcp", lambda: run("Add them", thread={"config": servers}))
    attempt("ephemeral", ephemeral)
    attempt("approvals", approvals)
    attempt(
        "steer",
        lambda: streamed(
            codex.thread_start(cwd=workspace).turn("Take your time"), lambda handle: handle.steer("Also sing")
        ),
    )
    attempt(
        "interrupt",
        lambda: streamed(codex.thread_start(cwd=workspace).turn("Wait"), lambda handle: handle.interrupt()),
    )
    attempt("models", models)
    attempt("kept", kept)

with Codex(config) as codex:

    def resume():
        thread = codex.thread_resume(told["kept"].get("thread", "none"))
        result = said(thread.run("Still there?"))
        thread.set_name("A name")
        read = thread.read(include_turns=True).thread
        return {**result, "turns": len(read.turns), "name": read.name}

    attempt("resume", resume)
print(json.dumps(told))
