"""The same fixed brains through Hames and through other agents: what is told back, what is sent, who recovers.

    python bench/agent.py [--install] [--peers hames,codex] [--brains near-miss,...] [--out FILE]

A brain is a model server on a loopback port that answers from a script and keeps every request. It plays the mistakes
that models make and reads the answers as a model would: if an error shows the right text, it repairs its call from that
alone. Nothing here is a score of a model: it is what a harness does with the same replies.

Other agents are looked for in `.tools/peers` (and `.tools/vibe`); `--install` puts them there. One that is missing or
does not run is named in the table, with the reason.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
from msgspec.structs import replace

from hames.domain.request import StopReason
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI, ResponseEvents
from hames.testing.services.server import ProviderServer, SeenRequest, ServerReply, ServerTalk, Use, talk

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / ".tools"
NPM = ("@openai/codex@0.166.0", "@anthropic-ai/claude-code@2.1.197", "opencode-ai@1.18.33")
VIBE = "mistral-vibe"
PROMPT = "Follow the plan in your head, step by step."
RUN_SECONDS = 150

Json = Any
Reply = ServerTalk | ServerReply | list[Use] | str
Brain = Generator[Reply, Json, None]


# -- the agents


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


# -- what a brain sees and says


class Stage:
    """One run: the workspace, the calls so far, and what came back."""

    def __init__(self, peer: Peer, workspace: Path) -> None:
        self.peer = peer
        self.workspace = workspace
        self.happened: list[str] = []
        self.body: Json = {}
        self._number = 0

    def file(self, name: str, content: str) -> Path:
        path = self.workspace / name
        path.write_text(content)
        return path

    def use(self, call: tuple[str, Json]) -> Use:
        self._number += 1
        name, arguments = call
        return Use(name=name, arguments=json.dumps(arguments), id=f"call_{self._number:03}")

    def result(self, use: Use) -> str:
        """What the model was told about a call; empty if nothing."""
        return _result_of(self.body, use.id)


def _result_of(body: Json, call_id: str) -> str:
    for message in body.get("messages", []):
        if message.get("role") == "tool" and message.get("tool_call_id") == call_id:
            return _text(message.get("content"))
        content = message.get("content")
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_result" and block.get("tool_use_id") == call_id:
                return _text(block.get("content"))
    for item in body.get("input", []) if isinstance(body.get("input"), list) else []:
        if str(item.get("type", "")).endswith("_call_output") and item.get("call_id") == call_id:
            return _text(item.get("output"))
    return ""


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "\n".join(_text(part) for part in content)
    if isinstance(content, dict):
        return _text(content.get("text") or content.get("content") or content.get("output") or "")
    return content or ""


def _history(body: Json) -> tuple[str, list[str]]:
    """What comes before the conversation, and each of its parts, without the marks for caching."""
    before = json.dumps([body.get("system"), body.get("instructions"), body.get("tools")])
    parts = body.get("messages") or body.get("input") or []
    return _unmarked(before), [_unmarked(json.dumps(part)) for part in parts]


def _unmarked(text: str) -> str:
    def clean(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: clean(one) for name, one in value.items() if name != "cache_control"}
        return [clean(one) for one in value] if isinstance(value, list) else value

    return json.dumps(clean(json.loads(text)), sort_keys=True)


# -- the brains: each ends with the sentence of its row in `stage.happened`, and says whether it recovered


class Ending(NamedTuple):
    recovered: bool
    words: str


Script = Callable[[Stage], Brain]
Judge = Callable[[Stage, int], Ending]


class NearMiss(NamedTuple):
    """An edit as a model makes it that remembers a file wrongly, and as it should have been."""

    name: str
    text: str
    remembered: tuple[str, str]
    right: tuple[str, str]

    def outcome(self, now: str) -> Literal["unchanged", "meant", "otherwise"]:
        """Both ways of writing the new line are what was meant, as long as the file still makes sense."""
        old, new = self.right
        good = {self.text.replace(old, new), self.text.replace(old, self.remembered[1])}
        if now == self.text:
            return "unchanged"
        try:
            compile(now, self.name, "exec")
        except SyntaxError:
            return "otherwise"
        return "meant" if now in good else "otherwise"


NEAR_MISSES = (
    NearMiss(
        "spaces.py", "def a():\n    return  1\n", ("    return 1", "    return 2"), ("    return  1", "    return 2")
    ),
    NearMiss(
        "tabs.py", "def b():\n\tx = 0\n\treturn 1\n", ("    return 1", "    return 2"), ("\treturn 1", "\treturn 2")
    ),
    NearMiss("quotes.py", "name = 'Ann'\n", ('name = "Ann"', 'name = "Bob"'), ("name = 'Ann'", "name = 'Bob'")),
    NearMiss(
        "typo.py",
        "# recieve it\nvalue = 1\n",
        ("# receive it\nvalue = 1", "# receive it\nvalue = 2"),
        ("# recieve it\nvalue = 1", "# recieve it\nvalue = 2"),
    ),
    NearMiss(
        "trailing.py", "x = 1   \ny = 2\n", ("x = 1\ny = 2", "x = 1\ny = 3"), ("x = 1   \ny = 2", "x = 1   \ny = 3")
    ),
    NearMiss(
        "indent.py",
        "if a:\n        go()\n        on()\n",
        ("if a:\n    go()", "if a:\n    stop()"),
        ("if a:\n        go()", "if a:\n        stop()"),
    ),
)


def near_miss(stage: Stage) -> Brain:
    files = [stage.file(miss.name, miss.text) for miss in NEAR_MISSES]
    yield [stage.use(stage.peer.read(path)) for path in files]
    for path, miss in zip(files, NEAR_MISSES, strict=True):
        use = stage.use(stage.peer.edit(path, *miss.remembered))
        yield [use]
        if path.read_text() == miss.text and all(line in stage.result(use) for line in miss.right[0].split("\n")):
            yield [stage.use(stage.peer.edit(path, *miss.right))]  # repaired from the error alone
            if path.read_text() != miss.text:
                stage.happened.append("repaired")
    yield "Done."


def judge_near_miss(stage: Stage, code: int) -> Ending:
    found = [miss.outcome((stage.workspace / miss.name).read_text()) for miss in NEAR_MISSES]
    done, total, repaired = found.count("meant"), len(NEAR_MISSES), len(stage.happened)
    words = f"{done - repaired} applied as meant, {repaired} repaired from the error"
    return Ending(done == total, f"{words}, {found.count('otherwise')} files changed otherwise, of {total}")


TWICE = "def first():\n    x = 1\n    return x\n\n\ndef second():\n    x = 1\n    return x\n"


def ambiguous(stage: Stage) -> Brain:
    path = stage.file("twice.py", TWICE)
    yield [stage.use(stage.peer.read(path))]
    yield [stage.use(stage.peer.edit(path, "    x = 1", "    x = 2"))]
    if path.read_text() == TWICE:
        yield [stage.use(stage.peer.edit(path, "def second():\n    x = 1", "def second():\n    x = 2"))]
    yield "Done."


def judge_ambiguous(stage: Stage, code: int) -> Ending:
    now = (stage.workspace / "twice.py").read_text()
    if now == TWICE.replace("second():\n    x = 1", "second():\n    x = 2"):
        return Ending(True, "refused, then the right place changed")
    return Ending(False, "nothing changed" if now == TWICE else "the first place was changed silently")


def other_hand(stage: Stage) -> Brain:
    path = stage.file("shared.txt", "one\ntwo\nthree\n")
    yield [stage.use(stage.peer.read(path))]
    path.write_text("one\ntwo\nthree\nby somebody else\n")
    yield [stage.use(stage.peer.edit(path, "two", "TWO"))]
    if "TWO" not in path.read_text():
        stage.happened.append("edit refused")
    write = stage.use(stage.peer.write(path, "one\nTWO\nthree\nfour\n"))
    yield [write]
    if "by somebody else" in stage.result(write):
        stage.happened.append("its text shown")
    yield "Done."


def judge_other_hand(stage: Stage, code: int) -> Ending:
    now = (stage.workspace / "shared.txt").read_text()
    kept = "by somebody else" in now
    edit = "edit refused" if "edit refused" in stage.happened else "edit applied"
    return Ending(kept, f"{edit}; whole write {'refused' if kept else 'done, the other line is lost'}")


def arguments(stage: Stage) -> Brain:
    path = stage.file("marked.txt", "MARKER\n")
    peer = stage.peer
    calls = [
        stage.use(peer.read(path, note_to_self="extra")),
        stage.use(peer.read(path, **{peer.limit_name: None})),
        stage.use(peer.read(path, **{peer.limit_name: "500"})),
    ]
    for call, kind in zip(calls, ("extra argument", "null", '"500" for 500'), strict=True):
        yield [call]
        if "MARKER" in stage.result(call):
            stage.happened.append(kind)
    yield "Done."


def judge_arguments(stage: Stage, code: int) -> Ending:
    return Ending(
        len(stage.happened) == 3, f"{len(stage.happened)} of 3 accepted: {', '.join(stage.happened) or 'none'}"
    )


def twelve_calls(stage: Stage) -> Brain:
    commands = [f"touch done-{number}" if number != 3 else "exit 1" for number in range(1, 13)]
    uses = [stage.use(stage.peer.shell(command)) for command in commands]
    yield uses
    stage.happened.append(str(sum(bool(stage.result(use)) for use in uses)))
    yield "Done."


def judge_twelve_calls(stage: Stage, code: int) -> Ending:
    ran = len(list(stage.workspace.glob("done-*")))
    results = stage.happened[0] if stage.happened else "0"
    return Ending(ran == 11, f"{ran} of 11 other calls executed, {results} of 12 results told")


REPETITION = re.compile(
    r"[^.\n]*\b(repeat|identical|same (call|command|tool|error|arguments)|in a row|loop)[^.\n]*", re.IGNORECASE
)


def same_failure(stage: Stage) -> Brain:
    for _ in range(10):
        yield [stage.use(stage.peer.shell("ls no-such-file-anywhere"))]
        found = REPETITION.search(_latest(stage.body))
        if found and not stage.happened:
            stage.happened.append(f"told: {found[0].strip()[:100]}")
    if not stage.happened:
        stage.happened.append("nothing said")
    yield "Done."


def _latest(body: Json) -> str:
    """The text of everything since the last call."""
    parts = body.get("messages") or body.get("input") or []
    calls = ("function_call", "custom_tool_call", "reasoning")
    said = [n for n, part in enumerate(parts) if part.get("role") == "assistant" or part.get("type") in calls]
    return "\n".join(_text(part) for part in parts[max(said, default=-1) + 1 :])


def judge_same_failure(stage: Stage, code: int) -> Ending:
    said = stage.happened[0] if stage.happened else "the run ended before the tenth call"
    return Ending(said.startswith("told"), said)


def cut_call(stage: Stage) -> Brain:
    name, given = stage.peer.shell("touch whole")
    text = json.dumps(given)
    yield ServerTalk(parts=(Use(name=name, arguments=text[: len(text) - 6], id="call_cut"),), stop="max_tokens")
    stage.happened.append("asked again")
    yield [stage.use(stage.peer.shell("touch whole"))]
    yield "Done."


def empty_reply(stage: Stage) -> Brain:
    yield ServerTalk(parts=(), stop="end")
    stage.happened.append("asked again")
    yield [stage.use(stage.peer.shell("touch whole"))]
    yield "Done."


def judge_whole(stage: Stage, code: int) -> Ending:
    made = (stage.workspace / "whole").exists()
    words = "asked again, then done" if made else f"nothing done, exit code {code}"
    return Ending(made, words if made or "asked again" not in stage.happened else f"asked again, {words}")


WINDOW_BYTES = 110_000


def window(stage: Stage) -> Brain:
    """The server refuses requests that are more than `WINDOW_BYTES` longer than the first one."""
    files = [
        stage.file(f"long-{place}.txt", "".join(f"{place}{number:05} {'word ' * 12}\n" for number in range(300)))
        for place in range(10)
    ]
    for place in range(0, 10, 2):  # two at a time: a summary of everything is too long as well, then
        yield [stage.use(stage.peer.read(path)) for path in files[place : place + 2]]
    yield [stage.use(stage.peer.shell("touch whole"))]
    yield "Done."


def judge_window(stage: Stage, code: int) -> Ending:
    made = (stage.workspace / "whole").exists()
    refused = stage.happened.count("refused")
    how = f"{refused} requests refused as too long"
    return Ending(made, f"{how}, {'went on' if made else f'the run ended, exit code {code}'}")


EDITS = 30


def long_edits(stage: Stage) -> Brain:
    path = stage.file("numbers.py", "".join(f"value_{number} = 0  # {'x' * 40}\n" for number in range(120)))
    yield [stage.use(stage.peer.read(path))]
    for number in range(EDITS):
        line = f"value_{number} = %d  # {'x' * 40}"
        yield [stage.use(stage.peer.edit(path, line % 0, line % (number + 1)))]
    yield "Done."


def judge_long_edits(stage: Stage, code: int) -> Ending:
    lines = (stage.workspace / "numbers.py").read_text().splitlines()
    done = sum(lines[number].startswith(f"value_{number} = {number + 1} ") for number in range(EDITS))
    return Ending(done == EDITS, f"{done} of {EDITS} edits applied")


BRAINS: dict[str, tuple[Script, Judge]] = {
    "near-miss edits": (near_miss, judge_near_miss),
    "ambiguous place": (ambiguous, judge_ambiguous),
    "another hand writes": (other_hand, judge_other_hand),
    "odd arguments": (arguments, judge_arguments),
    "12 calls, third fails": (twelve_calls, judge_twelve_calls),
    "same failure 10 times": (same_failure, judge_same_failure),
    "reply cut inside a call": (cut_call, judge_whole),
    "empty reply": (empty_reply, judge_whole),
    "window exceeded": (window, judge_window),
    f"{EDITS} edits in a row": (long_edits, judge_long_edits),
}


# -- a run


class Row(NamedTuple):
    brain: str
    peer: str
    recovered: str
    words: str
    requests: int = 0
    sent_kb: float = 0.0
    prefix: str = "-"
    questions: int = 0
    seconds: float = 0.0


class Server:
    """Plays a brain to the main conversation, and says something short to every other request (titles, probes)."""

    def __init__(self, stage: Stage, brain: Brain, *, limited: bool) -> None:
        self._stage = stage
        self._brain = brain
        self._limited = limited
        self._begun = False
        self.first = 0
        self.main: list[SeenRequest] = []

    def answer(self, seen: SeenRequest) -> ServerTalk | ServerReply:
        reply = self._reply(seen)
        if isinstance(reply, ServerTalk):
            reply = ServerReply(parts=tuple(self._stage.peer.dialect.events(reply)))
        # Replies with the same id would be taken for parts of one message.
        named = tuple(
            part.replace(b'"msg_01"', b'"msg_%d"' % len(self.main)) if isinstance(part, bytes) else part
            for part in reply.parts
        )
        return replace(reply, parts=named)

    def _reply(self, seen: SeenRequest) -> ServerTalk | ServerReply:
        body = seen.body
        if not isinstance(body, dict):
            return talk("ok")
        self.first = self.first or (len(seen.raw) if body.get("tools") else 0)
        if self._limited and self.first and len(seen.raw) > self.first + WINDOW_BYTES:
            self._stage.happened.append("refused")
            return self._stage.peer.dialect.refusal(400, info="ContextWindowExceeded")
        if not body.get("tools") or (self._limited and _asks_for_summary(body)):
            return talk("So far a long file was read several times, as planned. Go on with the plan.")
        self.main.append(seen)
        self._stage.body = body
        self._stage.peer.offered = _offered(body)
        try:
            reply = self._brain.send(body) if self._begun else next(self._brain)
        except StopIteration:
            return talk("Done.")
        self._begun = True
        if isinstance(reply, str):
            return talk(reply)
        return self._stage.peer.reply(reply) if isinstance(reply, list) else reply


def _offered(body: Json) -> dict[str, frozenset[str]]:
    tools = [tool.get("function", tool) for tool in body["tools"]]
    schemas = {tool.get("name", ""): tool.get("input_schema") or tool.get("parameters") or {} for tool in tools}
    return {name: frozenset(schema.get("properties", {})) for name, schema in schemas.items()}


def _asks_for_summary(body: Json) -> bool:
    last = (body.get("messages") or body.get("input") or [{}])[-1]
    content = last.get("content")
    texts = (
        [content]
        if isinstance(content, str)
        else [part.get("text", "") for part in content or [] if isinstance(part, dict)]
    )
    return last.get("role") == "user" and any("summar" in (text or "").lower() for text in texts[-1:])


def _prefix(main: list[SeenRequest]) -> str:
    """How many requests began with the whole one before."""
    kept = 0
    for before, after in pairwise(main):
        (head_a, parts_a), (head_b, parts_b) = _history(before.body), _history(after.body)
        kept += head_a == head_b and parts_b[: len(parts_a)] == parts_a
    return f"{kept}/{len(main) - 1}" if len(main) > 1 else "-"


async def play(kind: type[Peer], name: str) -> Row:
    script, judge = BRAINS[name]
    peer = kind()
    # Codex runs no command when its home is in a temporary directory.
    home = TOOLS / f"peers/home-{uuid.uuid4().hex[:8]}"
    folder = Path(tempfile.mkdtemp(prefix="hames-bench-"))
    workspace = folder / "work"
    workspace.mkdir()
    home.mkdir(parents=True)
    try:
        stage = Stage(peer, workspace)
        server = Server(stage, script(stage), limited=name == "window exceeded")
        started = time.monotonic()
        async with ProviderServer(peer.dialect, then=server.answer, strict=False) as service:
            words, added = peer.command(service.url, home)
            environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", **added}
            code, output = await _run(words, environment, workspace)
            seen = [one for one in service.seen if one.path.partition("?")[0] == peer.dialect.path]
        seconds = time.monotonic() - started
        if not server.main:
            return Row(name, peer.name, "not run", f"it never asked its model: {_last(output)}")
        ending = judge(stage, code)
        return Row(
            brain=name,
            peer=peer.name,
            recovered="yes" if ending.recovered else "no",
            words=ending.words,
            requests=len(server.main),
            sent_kb=sum(len(one.raw) for one in seen) / 1000,
            prefix=_prefix(server.main),
            questions=peer.questions(output),
            seconds=seconds,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


async def _run(words: list[str], environment: dict[str, str], cwd: Path) -> tuple[int, str]:
    process = await anyio.open_process(
        words, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environment, cwd=cwd, start_new_session=True
    )
    kept = bytearray()
    try:
        with anyio.move_on_after(RUN_SECONDS):
            assert process.stdout is not None
            async for chunk in process.stdout:
                kept += chunk
            await process.wait()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            with anyio.CancelScope(shield=True):
                await process.wait()
    code = process.returncode if process.returncode is not None else -9
    return code, kept.decode(errors="replace")


def _last(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "it said nothing"


def table(rows: list[Row]) -> Iterator[str]:
    head = ("brain", "agent", "recovered", "what happened", "requests", "kB sent", "prefix kept", "questions", "s")
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        figures = (
            ("-",) * 5
            if row.recovered == "not run"
            else (str(row.requests), f"{row.sent_kb:,.0f}", row.prefix, str(row.questions), f"{row.seconds:.1f}")
        )
        yield "| " + " | ".join((row.brain, row.peer, row.recovered, row.words.replace("|", "/"), *figures)) + " |"


def install() -> None:
    folder = TOOLS / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM], check=True)
    uv = str(Path(sys.executable).parent / "uv")
    named = [shutil.which(name) or "" for name in ("python3.14", "python3.13", "python3.12")]
    known = sorted(map(str, Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python")), reverse=True)
    python = next((one for one in [*named, *known] if one and not subprocess.call([one, "-c", ""])), "3.12")
    subprocess.run([uv, "venv", "-q", "--clear", "--python", python, str(TOOLS / "vibe")], check=False)
    subprocess.run([uv, "pip", "install", "-q", "--python", str(TOOLS / "vibe/bin/python"), VIBE], check=False)


async def measure(args: argparse.Namespace) -> list[Row]:
    wanted = [kind for kind in PEERS if not args.peers or kind.name.lower() in args.peers.lower().split(",")]
    brains = [name for name in BRAINS if not args.brains or any(word in name for word in args.brains.split(","))]
    rows: list[Row] = []
    ready: list[type[Peer]] = []
    for kind in wanted:
        try:
            print(f"{kind.name} {kind().version()}", flush=True)
            ready.append(kind)
        except (OSError, subprocess.SubprocessError, ValueError) as problem:
            rows.append(Row("all", kind.name, "not run", str(problem)))
    for name in brains:
        for kind in ready:
            rows.append(await play(kind, name))
            print(json.dumps(rows[-1]._asdict()), file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="install the other agents first")
    parser.add_argument("--peers", default="", help="only these, by name, separated by commas")
    parser.add_argument("--brains", default="", help="only brains whose names contain one of these words")
    parser.add_argument("--out", help="also write the table to this file")
    args = parser.parse_args()
    if args.install:
        install()
    rows = anyio.run(measure, args)
    text = "\n".join(table(rows))
    print(text)
    if args.out:
        Path(args.out).write_text(text + "\n")


if __name__ == "__main__":
    main()
