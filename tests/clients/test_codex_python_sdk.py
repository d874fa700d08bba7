"""Codex's official Python SDK, which checks everything it reads, drives our agent."""

import json
from pathlib import Path

from client_support import HERE, MCP, MODEL, answers, place
from clients_table import common, settle, texts


async def test_the_python_sdk_works_with_its_defaults(client_python: str, tmp_path: Path) -> None:
    driver = str(HERE / "drive_python_sdk.py")
    async with place(tmp_path) as here:
        told = await answers(client_python, driver, here.codex, str(here.workspace), str(here.picture), MCP)
        text, resumed = texts(told), told["resume"]
        works = {
            **common(told, here),
            "reasoning": told["text"].get("items") == ["userMessage", "reasoning", "agentMessage"],
            "approve, decline, for the session": len(told["approvals"].get("asked", ())) == 3 and here.decided,
            "plan": text["plan"] == "That is the plan." and "turn/plan/updated" in told["plan"]["methods"],
            "usage": told["text"].get("tokens", 0) > 0,
            "interrupt": told["interrupt"].get("status") == "interrupted",
            "resume": text["resume"] == "Still here." and (resumed["turns"], resumed["name"]) == (2, "A name"),
            "steer": text["steer"] == "I sang." and here.asked("Take your time", "Also sing"),
            "schema": json.loads(text["schema"] or "null") == {"n": 1},
            "model list": told["models"].get("defaults") == [MODEL],
            "ephemeral": here.deleted(told["ephemeral"]),
        }
        works["command, default policy"] &= "commandExecution" in told["command"]["items"]
        works["file change"] &= "fileChange" in told["file"]["items"]
        works["instructions"] &= here.asked("You are a whale.")
        works["resume"] &= told["kept"].get("thread") in told["kept"].get("listed", ())
    settle("openai-codex", works, told)
