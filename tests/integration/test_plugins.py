"""Packages that add tools, providers, agents and protocols: the examples of the documents, really installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hames.domain.json import Json

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "plugins"
UV = Path(sys.executable).parent / "uv"

BROKEN = """
[project]
name = "hames-broken"
version = "1.0"

[project.entry-points."hames.tools"]
broken = "hames_broken:tool"
nonsense = "hames_broken:NOTHING"

[project.entry-points."hames.providers"]
broken = "hames_broken:provider"

[project.entry-points."hames.agents"]
broken = "hames_broken:agent"

[project.entry-points."hames.protocols"]
broken = "hames_broken:protocol"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
include = ["hames_broken.py"]
"""
BROKEN_MODULE = """
NOTHING = object()
def provider(environment):
    raise ZeroDivisionError("the provider is broken")
def agent(environment):
    raise ZeroDivisionError("the agent is broken")
def protocol(models, defaults):
    raise ZeroDivisionError("the protocol is broken")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has Hames, the four examples and a broken package."""
    directory = tmp_path_factory.mktemp("plugins")
    broken = directory / "broken"
    broken.mkdir()
    (broken / "pyproject.toml").write_text(BROKEN)
    (broken / "hames_broken.py").write_text(BROKEN_MODULE)
    venv = directory / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", venv)
    python = venv / "bin" / "python"
    site = _run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    here = sysconfig.get_path("purelib")
    (Path(site) / "development.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    sources = [shutil.copytree(example, directory / example.name) for example in sorted(EXAMPLES.iterdir())]
    install = ("pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python", python)
    _run(UV, *install, *sources, broken)
    return python


def _run(*command: str | Path, cwd: Path | None = None, code: int | None = 0, **more: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd or "/nonexistent"), **more}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr if code else done.stdout


def _hames(python: Path, cwd: Path, *words: str, **more: Any) -> str:
    return _run(python, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", *words, cwd=cwd, **more)


def _script(tmp_path: Path, *replies: Json) -> str:
    path = tmp_path / "script.json"
    path.write_bytes(msgspec.json.encode(list(replies)))
    return f"scripted/{path}"


def test_an_installed_tool_is_offered_and_runs(python: Path, tmp_path: Path) -> None:
    model = _script(tmp_path, [{"call": "weekday", "with": {"day": "2026-11-16"}}], ["done"])
    answer = _hames(python, tmp_path, "run", "--json", "--model", model, "Which day?")
    assert "Monday" in answer


def test_an_installed_provider_is_listed_and_answers(python: Path, tmp_path: Path) -> None:
    assert "echo/parrot" in _hames(python, tmp_path, "models")
    assert "You said: Hello?" in _hames(python, tmp_path, "run", "--model", "echo/any", "Hello?")
    assert "Hm: Hello?" in _hames(python, tmp_path, "run", "--model", "echo/any", "Hello?", ECHO_PREFIX="Hm: ")


def test_an_installed_agent_runs_whole_turns_and_its_threads_are_resumed(python: Path, tmp_path: Path) -> None:
    assert "HELLO?" in _hames(python, tmp_path, "run", "--agent", "shout", "Hello?")
    assert "AGAIN!" in _hames(python, tmp_path, "run", "--continue", "Again!")
    assert "no agent 'whisper'" in _hames(python, tmp_path, "run", "--agent", "whisper", "Hello?", code=2)


def test_an_installed_protocol_is_served_over_stdin_and_stdout(python: Path, tmp_path: Path) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "say", "params": {"text": "Hello?"}}
    wrong = {"jsonrpc": "2.0", "id": 2, "method": "say", "params": {}}
    code = f"""
import json, subprocess, sys
command = [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())"]
process = subprocess.Popen([*command, "stdio", "chat", "--model", "echo/any"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
print({msgspec.json.encode(request).decode()!r}, file=process.stdin, flush=True)
told = [json.loads(process.stdout.readline()) for _ in range(2)]
print({msgspec.json.encode(wrong).decode()!r}, file=process.stdin, flush=True)
told.append(json.loads(process.stdout.readline()))
process.stdin.close()
print(json.dumps(told), process.wait(30))
"""
    told, _, status = _run(python, "-c", code, cwd=tmp_path).strip().rpartition(" ")
    assert status == "0"
    assert msgspec.json.decode(told) == [
        {"jsonrpc": "2.0", "id": 1, "result": {"ok": True}},
        {"jsonrpc": "2.0", "method": "text", "params": {"text": "You said: Hello?"}},
        {"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "say needs a text"}},
    ]
    said = _hames(python, tmp_path, "stdio", "nobody", code=2)
    assert "no installed package has 'nobody' under hames.protocols" in said
    assert "chat" in said


def test_a_broken_package_is_a_sentence_and_everything_else_works(python: Path, tmp_path: Path) -> None:
    said = _hames(python, tmp_path, "stdio", "broken", code=2)
    assert "'broken' (hames.protocols) cannot be used: the protocol is broken" in said
    assert "Traceback" not in said
    answer = _hames(python, tmp_path, "run", "--model", "echo/any", "--log-file", "log", "Hello?")
    assert "You said: Hello?" in answer
    log = (tmp_path / "log").read_text()
    for kind, why in (("providers", "the provider is broken"), ("agents", "the agent is broken"), ("tools", "")):
        assert f"'broken' (hames.{kind}) cannot be used: {why}" in log
    doctor = _hames(python, tmp_path, "doctor", code=None)
    assert "tool weekday, provider echo, agent shout, " in doctor
    assert "cannot be used: the agent is broken" in doctor


def test_nothing_is_taken_from_the_workspace_or_the_current_directory(python: Path, tmp_path: Path) -> None:
    """A repository with a package of its own, and with a module that has the name of an installed one."""
    metadata = tmp_path / "evil-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[hames.providers]\nevil = evil:provider\n")
    touch = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    (tmp_path / "evil.py").write_text(f"{touch}\ndef provider(environment): ...\n")
    (tmp_path / "hames_echo.py").write_text(f"{touch}\nclass EchoModels: ...\n")
    for path in ("", str(tmp_path), "."):
        for cwd in (tmp_path, Path("/")):
            command = [python, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", "models"]
            said = _run(*command, "--cwd", tmp_path, cwd=cwd, PYTHONPATH=path, HOME=str(tmp_path))
            assert "evil" not in said
            assert not (tmp_path / "ran").exists()
    assert "echo/parrot" in _run(python, "-m", "hames", "models", cwd=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_no_package_is_looked_for_before_one_is_needed(python: Path, tmp_path: Path) -> None:
    code = """
import os, sys
import hames.app
from hames.config.load import load
looked = []
sys.addaudithook(lambda event, args: looked.append(args[0]) if event == "os.scandir" else None)
models = hames.app.catalogue(load({"cwd": sys.argv[1]}, os.environ))
models.find(models.default), models.find("scripted/hello")
print(any("site-packages" in str(path) for path in looked))
models.cards()
print(any("site-packages" in str(path) for path in looked))
"""
    assert _run(python, "-c", code, str(tmp_path), cwd=tmp_path).split() == ["False", "True"]


def test_the_examples_are_short() -> None:
    for example in EXAMPLES.iterdir():
        assert sum(len(path.read_text().splitlines()) for path in example.glob("*.py")) <= 60
