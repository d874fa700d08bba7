"""Runs inside a Python that has the official Codex SDK: a text turn, an approved command, a resume. Prints JSON."""

import json
import sys

from openai_codex import Codex, CodexConfig

asked = []


def approve(method, params):
    asked.append([method, params.get("command")])
    return {"decision": "accept"}


def said(result):
    kinds = [getattr(item, "root", item).type for item in result.items]
    return {"text": result.final_response, "items": kinds, "tokens": result.usage.total.total_tokens}


config = CodexConfig(launch_args_override=(sys.argv[1], "app-server"), cwd=sys.argv[2])
told = {}
with Codex(config) as codex:
    codex._client._approval_handler = approve
    thread = codex.thread_start(cwd=sys.argv[2])
    told["greeting"] = said(thread.run("Greet me"))
    told["command"] = said(thread.run("Make a file"))
    told["asked"] = asked
    told["models"] = [model.id for model in codex.models().data]
    told["threads"] = [listed.id for listed in codex.thread_list().data]
    told["thread"] = thread.id
with Codex(config) as codex:
    thread = codex.thread_resume(told["thread"])
    told["resumed"] = said(thread.run("Still there?"))
    told["turns"] = len(thread.read(include_turns=True).thread.turns)
    thread.set_name("A name")
    told["name"] = thread.read().thread.name
print(json.dumps(told))
