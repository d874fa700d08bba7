"""SDKs that start `codex exec`: OpenAI's for TypeScript, and openai-codex-sdk of PyPI. Here they start `hames exec`."""

import base64
import json
import shlex
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest
from clients_table import note_all
from real_agent import HAMES

from conftest import HOME, install_once, run_command

NPM = ("@openai/codex-sdk@0.163.0",)
PYPI = ("openai-codex-sdk==0.1.11",)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
HERE = Path(__file__).parent
SCRIPT = {
    "conversations": [
        {"when": "Greet me", "replies": ["Hello from Hames."]},
        {"when": "Still there?", "replies": ["Still here."]},
        {"when": "Look", "replies": ["A pixel."]},
        {"when": "Fail", "replies": [[{"fail": "the model is on holiday"}]]},
        {"when": "Wait", "replies": [[{"call": "shell", "with": {"command": "sleep 600"}}]]},
        {
            "when": "Make a file",
            "replies": [
                [{"think": "A command will do."}, {"call": "shell", "with": {"command": "touch made-by-agent"}}],
                "Done.",
            ],
        },
    ],
    "otherwise": ['Here it is:\n```json\n{"n": 1}\n```'],
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "pixel.png").write_bytes(base64.b64decode(PIXEL))
    return tmp_path / "workspace"


@pytest.fixture
def command(tmp_path: Path) -> str:
    """`hames` where the SDKs expect `codex`, with a scripted model as the configured one."""
    script, config = tmp_path / "script.json", tmp_path / "config.toml"
    script.write_text(json.dumps(SCRIPT))
    config.write_text(f'model = "scripted/{script}"\n')
    program = tmp_path / "codex"
    settings = [f"HAMES_CONFIG={config}", f"HAMES_STATE={tmp_path / 'state'}"]
    program.write_text(f'#!/bin/sh\nexec env {shlex.join([*settings, HAMES])} "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.fixture(scope="session")
def typescript_sdk() -> Path:
    """The package alone: it need not bring a Codex along."""
    folder = HOME / "exec-sdk"
    words = ("npm", "install", "--no-audit", "--no-fund", "--omit=optional", "--prefix", str(folder), *NPM)
    install_once("exec-npm", NPM, lambda: run_command(*words))
    return folder


@pytest.fixture(scope="session")
def python_sdk() -> str:
    folder = HOME / "exec-python"
    python = str(folder / "bin" / "python")

    def install() -> None:
        venv.create(folder, with_pip=True, clear=True)
        run_command(python, "-m", "pip", "install", "-q", *PYPI)

    install_once("exec-pypi", PYPI, install)
    return python


def answers(*words: str) -> dict[str, Any]:
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pictures_saved(workspace: Path) -> bool:
    return any(PIXEL in log.read_text() for log in workspace.glob(".harness/**/*.jsonl"))


def test_the_typescript_sdk_runs_hames_exec(command: str, workspace: Path, typescript_sdk: Path) -> None:
    driver = typescript_sdk / "drive.mjs"
    driver.write_text((HERE / "drive_typescript_sdk.mjs").read_text())
    told = answers("node", str(driver), command, str(workspace), str(workspace.parent / "pixel.png"))

    assert told["greeting"]["finalResponse"] == "Hello from Hames."
    assert [item["type"] for item in told["greeting"]["items"]] == ["agent_message"]
    assert told["greeting"]["usage"]["output_tokens"] > 0
    assert told["thread"].startswith("ses_")
    assert told["again"]["finalResponse"] == told["resumed"]["finalResponse"] == "Still here."
    assert json.loads(told["schema"]["finalResponse"]) == {"n": 1}
    assert told["image"]["finalResponse"] == "A pixel."
    assert pictures_saved(workspace)
    assert [event["type"] for event in told["streamed"]] == [
        "thread.started",
        "turn.started",
        "item.completed",
        "item.started",
        "item.completed",
        "item.completed",
        "turn.completed",
    ]
    assert (workspace / "made-by-agent").exists()
    (refused,) = [item for item in told["readonly"]["items"] if item["type"] == "command_execution"]
    assert refused["status"] == "failed"
    assert told["failed"] == "the model is on holiday"
    assert "no model 'no-such-model'" in told["refused"]
    assert told["aborted"] == "AbortError"
    note_all(
        "@openai/codex-sdk",
        *("text", "reasoning", "command, default policy", "usage", "resume", "image", "schema", "interrupt"),
    )


def test_the_python_sdk_of_pypi_runs_hames_exec(command: str, workspace: Path, python_sdk: str) -> None:
    told = answers(
        python_sdk, str(HERE / "drive_exec_sdk.py"), command, str(workspace), str(workspace.parent / "pixel.png")
    )
    assert told["greeting"]["final_response"] == "Hello from Hames."
    assert told["resumed"]["final_response"] == "Still here."
    assert json.loads(told["schema"]["final_response"]) == {"n": 1}
    assert told["image"]["final_response"] == "A pixel."
    assert pictures_saved(workspace)
    assert [item["type"] for item in told["command"]["items"]] == ["reasoning", "command_execution", "agent_message"]
    assert (workspace / "made-by-agent").exists()
    assert told["failed"] == "the model is on holiday"
    assert told["aborted"] == "AbortError"
