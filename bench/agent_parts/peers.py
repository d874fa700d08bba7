"""The agents that are compared: how each is started, what its tools are called, where its requests carry results."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hames.domain.request import StopReason
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI, ResponseEvents
from hames.testing.services.server import ServerReply, ServerTalk, Use

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
PROMPT = "Follow the plan in your head, step by step."

Json = Any


class Peer:
    """One agent: how it is started, what its tools are called, and where its requests carry results."""

    name = ""
    dialect: Any = ANTHROPIC

    def __init__(self) -> None:
        self.offered: dict[str, frozenset[str]] = {}
        """The tools of the last request, with the names of their arguments."""

    def version(self) -> str:
        """Raises `FileNotFoundError` when it is not there."""
        raise NotImplementedError

    def command(self, url: str, home: Path) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    def shell(self, command: str) -> tuple[str, Json]:
        raise NotImplementedError

    def read(self, path: Path, **more: Json) -> tuple[str, Json]:
        raise NotImplementedError

    def write(self, path: Path, content: str) -> tuple[str, Json]:
        raise NotImplementedError

    def edit(self, path: Path, old: str, new: str) -> tuple[str, Json]:
        raise NotImplementedError

    limit_name = "limit"
    """An optional whole number among the arguments of `read`."""

    def reply(self, uses: list[Use], stop: StopReason = "tools") -> ServerTalk | ServerReply:
        return ServerTalk(parts=tuple(uses), stop=stop)

    def questions(self, output: str) -> int:
        """How often a person would have been asked, as far as its output tells."""
        return 0


class Hames(Peer):
    name = "Hames"

    def version(self) -> str:
        from hames import __version__

        return __version__

    def command(self, url: str, home: Path) -> tuple[list[str], dict[str, str]]:
        program = str(Path(sys.executable).parent / "hames")
        words = [
            program,
            "run",
            "--json",
            "--model",
            "anthropic/claude-sonnet-4-5",
            "--approval-policy",
            "never",
            PROMPT,
        ]
        return words, {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": url}

    def shell(self, command: str) -> tuple[str, Json]:
        return self._call(("shell", "bash", "Bash"), command=command)

    def read(self, path: Path, **more: Json) -> tuple[str, Json]:
        name, given = self._call(("read", "Read"), path=path.name)
        return name, {**given, **more}

    def write(self, path: Path, content: str) -> tuple[str, Json]:
        return self._call(("write", "Write"), path=path.name, content=content)

    def edit(self, path: Path, old: str, new: str) -> tuple[str, Json]:
        return self._call(("edit", "Edit"), path=path.name, old_string=old, new_string=new)

    def _call(self, names: tuple[str, ...], **given: Json) -> tuple[str, Json]:
        """By the names that it offers to this model."""
        name = next((one for one in names if one in self.offered), names[0])
        known = self.offered.get(name, frozenset())
        return name, {"file_path" if key == "path" and "file_path" in known else key: one for key, one in given.items()}

    def questions(self, output: str) -> int:
        return output.count('"type":"approval.needed"')


class ClaudeCode(Peer):
    name = "Claude Code"

    def _program(self) -> str:
        return _existing(TOOLS / "peers/node_modules/@anthropic-ai/claude-code-linux-x64/claude")

    def version(self) -> str:
        return _package_version("@anthropic-ai/claude-code", self._program())

    def command(self, url: str, home: Path) -> tuple[list[str], dict[str, str]]:
        words = [self._program(), "-p", PROMPT, "--output-format", "stream-json", "--verbose", "--model"]
        words += ["claude-sonnet-4-5", "--permission-mode", "acceptEdits", "--allowedTools", "Bash,Edit,Write,Read"]
        environment = {
            "ANTHROPIC_API_KEY": "test",
            "ANTHROPIC_BASE_URL": url,
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        return words, environment

    def shell(self, command: str) -> tuple[str, Json]:
        return "Bash", {"command": command, "description": "a step"}

    def read(self, path: Path, **more: Json) -> tuple[str, Json]:
        return "Read", {"file_path": str(path), **more}

    def write(self, path: Path, content: str) -> tuple[str, Json]:
        return "Write", {"file_path": str(path), "content": content}

    def edit(self, path: Path, old: str, new: str) -> tuple[str, Json]:
        return "Edit", {"file_path": str(path), "old_string": old, "new_string": new}

    def questions(self, output: str) -> int:
        for line in output.splitlines():
            if '"type":"result"' in line:
                return len(json.loads(line).get("permission_denials", []))
        return 0


class OpenCode(Peer):
    name = "opencode"

    def _program(self) -> str:
        return _existing(TOOLS / "peers/node_modules/opencode-linux-x64/bin/opencode")

    def version(self) -> str:
        return _package_version("opencode-ai", self._program())

    def command(self, url: str, home: Path) -> tuple[list[str], dict[str, str]]:
        config = {
            "autoupdate": False,
            "share": "disabled",
            "small_model": "anthropic/claude-haiku-4-5",
            "provider": {"anthropic": {"options": {"baseURL": f"{url}/v1", "apiKey": "test"}}},
        }
        environment = {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")},
        }
        return [self._program(), "run", "--format", "json", "-m", "anthropic/claude-sonnet-4-5", PROMPT], environment

    def shell(self, command: str) -> tuple[str, Json]:
        return "bash", {"command": command, "description": "a step"}

    def read(self, path: Path, **more: Json) -> tuple[str, Json]:
        return "read", {"filePath": str(path), **more}

    def write(self, path: Path, content: str) -> tuple[str, Json]:
        return "write", {"filePath": str(path), "content": content}

    def edit(self, path: Path, old: str, new: str) -> tuple[str, Json]:
        return "edit", {"filePath": str(path), "oldString": old, "newString": new}

    def questions(self, output: str) -> int:
        return output.count("permission requested")


class Vibe(Peer):
    name = "Mistral Vibe"
    dialect = CHAT

    def _program(self) -> str:
        return _existing(TOOLS / "vibe/bin/vibe")

    def version(self) -> str:
        done = subprocess.run([self._program(), "--version"], capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.split()[-1] if done.stdout.split() else "?"

    def command(self, url: str, home: Path) -> tuple[list[str], dict[str, str]]:
        folder = home / "vibe"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(
            'active_model = "brain"\nenable_update_checks = false\nenable_telemetry = false\n'
            "enable_auto_update = false\n\n"
            f'[[providers]]\nname = "loopback"\napi_base = "{url}/v1"\napi_key_env_var = "BRAIN_KEY"\n'
            'api_style = "openai"\nbackend = "generic"\n\n'
            '[[models]]\nname = "brain-1"\nprovider = "loopback"\nalias = "brain"\n'
        )
        words = [self._program(), "--auto-approve", "--trust", "--output", "json", f"--prompt={PROMPT}"]
        return words, {"VIBE_HOME": str(folder), "BRAIN_KEY": "test"}

    def shell(self, command: str) -> tuple[str, Json]:
        return "bash", {"command": command}

    def read(self, path: Path, **more: Json) -> tuple[str, Json]:
        return "read_file", {"path": str(path), **more}

    def write(self, path: Path, content: str) -> tuple[str, Json]:
        return "write_file", {"path": str(path), "content": content}

    def edit(self, path: Path, old: str, new: str) -> tuple[str, Json]:
        return "edit", {"file_path": str(path), "old_string": old, "new_string": new}


class Codex(Peer):
    name = "Codex"
    dialect = OPENAI
    limit_name = "max_output_tokens"

    def _program(self) -> str:
        vendor = TOOLS / "peers/node_modules/@openai/codex-linux-x64/vendor"
        found = sorted(vendor.glob("*/bin/codex")) + sorted(vendor.glob("*/codex/codex"))
        return _existing(found[0] if found else vendor)

    def version(self) -> str:
        return _package_version("@openai/codex", self._program())

    def command(self, url: str, home: Path) -> tuple[list[str], dict[str, str]]:
        folder = home / "codex"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(
            'model = "gpt-5.5"\nmodel_provider = "loopback"\ncheck_for_update_on_startup = false\n\n'
            f'[model_providers.loopback]\nname = "loopback"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
            "request_max_retries = 0\nstream_max_retries = 1\nsupports_websockets = false\n\n"
            "[analytics]\nenabled = false\n\n[feedback]\nenabled = false\n"
        )
        words = [self._program(), "exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", PROMPT]
        return words, {"CODEX_HOME": str(folder)}

    def shell(self, command: str) -> tuple[str, Json]:
        return "exec_command", {"cmd": command}

    def read(self, path: Path, **more: Json) -> tuple[str, Json]:
        return "exec_command", {"cmd": f"cat {path.name}", **more}

    def write(self, path: Path, content: str) -> tuple[str, Json]:
        return "exec_command", {"cmd": f"cat > {path.name} <<'EOF'\n{content}EOF"}

    def edit(self, path: Path, old: str, new: str) -> tuple[str, Json]:
        lines = [f"-{line}" for line in old.split("\n")] + [f"+{line}" for line in new.split("\n")]
        body = "\n".join(["*** Begin Patch", f"*** Update File: {path.name}", "@@", *lines, "*** End Patch", ""])
        return "apply_patch", body

    def reply(self, uses: list[Use], stop: StopReason = "tools") -> ServerTalk | ServerReply:
        if all(use.name != "apply_patch" for use in uses):
            return super().reply(uses, stop)
        told = ResponseEvents()
        told.begin()
        for use in uses:  # takes its text as it is, not as JSON
            item = {"id": f"ctc_{use.id}", "type": "custom_tool_call", "call_id": use.id, "name": use.name}
            item["input"] = json.loads(use.arguments)
            told.added({**item, "status": "in_progress"})
            told.done({**item, "status": "completed"})
        told.end()
        return ServerReply(parts=tuple(told.events))


PEERS: tuple[type[Peer], ...] = (Hames, Codex, ClaudeCode, OpenCode, Vibe)


def _existing(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError("not installed; `python bench/agent.py --install` does that")
    return str(path)


def _package_version(package: str, program: str) -> str:
    return json.loads((TOOLS / "peers/node_modules" / package / "package.json").read_text())["version"]
