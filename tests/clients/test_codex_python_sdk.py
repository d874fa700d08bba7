"""Codex's official Python SDK, which checks everything it reads, drives our agent."""

import json
import subprocess
from pathlib import Path

from clients_table import note_all
from real_agent import Agent

DRIVER = Path(__file__).parent / "drive_python_sdk.py"


def test_the_python_sdk_talks_approves_and_resumes(agent: Agent, client_python: str) -> None:
    done = subprocess.run(
        [client_python, str(DRIVER), agent.command, str(agent.workspace)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    assert told["greeting"]["text"] == "Hello from Hames."
    assert told["greeting"]["items"] == ["userMessage", "agentMessage"]
    assert told["greeting"]["tokens"] > 0
    assert told["asked"] == []  # its default is on-request: what stays in the sandbox needs no question
    assert told["command"]["items"] == ["userMessage", "reasoning", "commandExecution", "agentMessage"]
    assert agent.made
    assert told["threads"] == [told["thread"]]
    assert told["resumed"]["text"] == "Still here."
    assert told["turns"] == 3
    assert told["name"] == "A name"
    assert any(model.startswith("anthropic/") for model in told["models"])
    note_all("openai-codex", "text", "reasoning", "command, default policy", "usage", "resume", "model list")
