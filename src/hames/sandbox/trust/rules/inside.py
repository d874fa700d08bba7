"""What a command runs besides itself: through a wrapper (`env`, `sudo`, `xargs`), a shell, a script, `eval`.

Every command that is found is judged. What may run something that nobody can see before it runs is a doubt.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hames.sandbox.trust.rules.found_commands import ANYTHING, ScriptCommand, ScriptWord
from hames.sandbox.trust.rules.programs import RUNS_NO_OTHERS, is_missing, is_runner, other_names
from hames.sandbox.trust.rules.shell_script import MAX_DEPTH, read_script

MAX_SCRIPT_BYTES = 256 * 1024
MAX_SCRIPTS = 32

SHELL = re.compile(r"(?:ba|da|a|k|mk|z|fi|c|tc|r)?sh")
INTERPRETER = re.compile(
    r"(?:python|pypy|perl|ruby|php|lua|node|nodejs|deno|bun|tsx|ts-node|Rscript|julia|pwsh|tclsh|expect|osascript|awk|gawk"
    r"|mawk|nawk|groovy|java|swift|elixir|escript)[\d.]*"
)
WRAPPERS = frozenset(
    "sudo doas env nohup nice ionice time timeout stdbuf setsid setpriv chroot xargs command builtin exec strace "
    "ltrace unbuffer watch flock parallel busybox toybox script su ssh runuser unshare nsenter bwrap firejail proot "
    "fakeroot taskset chrt numactl prlimit systemd-run start-stop-daemon daemonize screen tmux rlwrap faketime "
    "torsocks proxychains entr find fd fdfind npx bunx uvx pipx uv poetry pipenv pdm hatch rye bundle dotenv "
    "direnv mise asdf coverage perf valgrind gdb catchsegv xvfb-run dbus-run-session caffeinate arch coproc".split()
)
"""Programs that run a command among their arguments."""
_INPUT_TO_ARGUMENTS = frozenset({"xargs", "parallel", "entr"})
_GIT_RUNS = frozenset({"bisect", "submodule", "rebase", "difftool", "mergetool", "filter-branch"})
_GIT_WORDS = re.compile(r"-[a-zA-Z]*m|--(?:message|author|grep|format|pretty|date|trailer)|-[SGLF]")
"""Options of git with text that it does not run."""
_BUILD_FILE_OPTIONS = re.compile(r"-[fC]|--(?:file|makefile|directory|justfile|taskfile|prefix)=?")
_BUILD_SHELL = re.compile(r"(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKEFILES)[:?+]*=|--(?:eval|shell|script-shell)\b")
"""What tells a build tool with which program it runs its commands."""
_NO_PROGRAM = re.compile(r"-.*|\d+[a-z]*|\w+=.*")
_SCRIPT_VARIABLES = frozenset({"BASH_ENV", "ENV"})
_PRINTS = frozenset("echo printf grep egrep fgrep rg cat head tail ls wc sort uniq diff cmp test [ jq tee".split())
_TAKES_COMMANDS = frozenset(
    "at batch crontab ssh su newgrp sg script ed ex vi vim nvim gdb nc ncat telnet tmux".split()
)
"""Programs that run what they read from their input."""
_CHANGES_PROGRAMS = frozenset({"hash", "enable"})
_BUILD_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("package.json",)),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini", "pyproject.toml"),
    "invoke": ("tasks.py",),
    "pre-commit": (".pre-commit-config.yaml",),
}


@dataclass(slots=True)
class Contents:
    """Everything a command line runs, as far as it can be seen."""

    commands: list[ScriptCommand] = field(default_factory=list[ScriptCommand])
    code: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Text that some program may run, each with where it is: code of another language, build files."""
    doubts: list[str] = field(default_factory=list[str])
    places: list[str] = field(default_factory=list[str])
    """Directories that the commands may run in."""
    possible: list[ScriptCommand] = field(default_factory=list[ScriptCommand])
    """What stands behind a program that may run its arguments."""
    written: set[str] = field(default_factory=set[str])
    """Files that the line writes or names, as it names them: what they contain is known only when it runs."""


NESTED = re.compile(r"\$[({]|`|<<|[<>]\(|\bcase\b|\bfunction\b|\(\s*\)")
"""Shell inside shell, which a reader may misread."""


def look_inside(text: str, cwd: str) -> Contents:
    """Reads the scripts that a command line names. It raises nothing."""
    found = Contents(places=[cwd])
    _Look(found).script(text, 0)
    found.doubts += [
        f"`{word}` is written and run by the same line"
        for command in found.commands
        for word in _scripts(command)
        if os.path.normpath(word) in found.written
    ][:1]
    return found


def _scripts(command: ScriptCommand) -> Iterator[str]:
    """What a command runs by its path: itself, or the script of a shell or an interpreter."""
    texts = [word.text for word in command.words if word.text]
    name = texts[0].rpartition("/")[2] if texts else ""
    if texts and "/" in texts[0]:
        yield texts[0]
    if name in ("source", ".") or SHELL.fullmatch(name) or INTERPRETER.fullmatch(name):
        yield from (text for text in texts[1:] if not text.startswith("-"))


class _Look:
    def __init__(self, found: Contents) -> None:
        self._found = found
        self._read: set[str] = set()

    def script(self, text: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self._doubt("it is nested too deeply to be checked")
            return
        if depth and NESTED.search(text):
            self._found.code.append((text, "nested shell in it"))
        script = read_script(text, depth)
        self._found.doubts += script.doubts
        for command in script.commands:
            self._command(command, depth)

    def _command(self, command: ScriptCommand, depth: int) -> None:
        self._found.commands.append(command)
        for name, value in command.assignments:
            if name in _SCRIPT_VARIABLES:
                self._file(value, depth)
            elif value.text is not None and re.search(r"\s", value.text):
                self._found.code.append((value.text, f"the variable {name}"))  # GIT_SSH_COMMAND and the like
        words = command.words
        self._note_written(command)
        if not words:
            return
        self._program(command, words, depth)
        name = _name(words[0])
        if words[0].text is not None:
            self._found.commands += [
                ScriptCommand(words=(ScriptWord(parts=(other,)), *words[1:]))
                for other in other_names(words[0].text, self._found.places)
            ]
        if name == "env":
            self._split(words[1:], depth)
        texts = [word.shown for word in words]
        if name is not None and name not in WRAPPERS and (name not in RUNS_NO_OTHERS or is_runner(name, texts)):
            self._found.possible += [ScriptCommand(words=words[at:]) for at in range(1, min(len(words), 40))]
        if name in WRAPPERS:
            more = (ANYTHING,) if name in _INPUT_TO_ARGUMENTS else ()
            if more and _ends_with_a_wrapper(texts[1:]):
                self._doubt(f"what `{name}` in it runs cannot be known in advance")
            for at in range(1, len(words)):
                if words[at].shown.startswith("-") and at + 1 < len(words):
                    continue
                inner = ScriptCommand(words=(*words[at:], *more), inputs=command.inputs, piped=command.piped)
                self._found.commands.append(inner)
                self._program(inner, inner.words, depth)

    def _note_written(self, command: ScriptCommand) -> None:
        targets = [word.text for operator, word in command.redirects if ">" in operator]
        name = _name(command.words[0]) if command.words else None
        if name in ("cp", "mv", "ln", "tee", "install", "dd", "curl", "wget", "sed", "patch", "rsync", "truncate"):
            targets += [word.text for word in command.words[1:]]
        self._found.written |= {os.path.normpath(text) for text in targets if text and text != "/dev/null"}

    def _split(self, words: tuple[ScriptWord, ...], depth: int) -> None:
        """`env -S`: one word that becomes several."""
        for at, word in enumerate(words):
            found = re.match(r"-[a-zA-Z]*?S|--s[a-z-]*=?", word.shown)
            if found is None:
                continue
            rest = word.shown[found.end() :] or (words[at + 1].shown if at + 1 < len(words) else "")
            text = rest.replace("\\_", " ").replace("\\t", " ")
            if re.search(r"[\\$…]", text):
                self._doubt("what `env -S` in it runs cannot be known in advance")
            more = " ".join(word.shown for word in words[at + 1 :])
            self.script(f"{text} {more}", depth + 1)
            self.script(text, depth + 1)

    def _program(self, command: ScriptCommand, words: tuple[ScriptWord, ...], depth: int) -> None:
        name = _name(words[0])
        rest = words[1:]
        if name is None:
            self._doubt(f"which program `{words[0].shown}` is cannot be known in advance")
        elif SHELL.fullmatch(name):
            self._shell(command, rest, depth)
        elif name == "eval":
            self._eval(rest, depth)
        elif name in ("source", "."):
            for word in rest[:1]:
                self._file(word, depth)
        elif name in ("trap", "alias"):
            self._strings(rest, depth)
            if name == "alias":
                self._doubt("it gives commands other names with `alias`")
        elif name == "cd" and rest:
            self._enter(rest[0])
        elif INTERPRETER.fullmatch(name):
            self._interpreter(command, name, rest, depth)
        elif name == "git":
            self._git(rest)
        elif name in _BUILD_FILES:
            self._build(name, rest)
        elif name not in _PRINTS:
            self._embedded(rest, name)
            self._fed(command, name, rest)
        if name in _CHANGES_PROGRAMS and rest:
            self._doubt(f"it changes with `{name}` which program a name stands for")
        if name is not None and words[0].text is not None and "/" in words[0].text:
            self._file(words[0], depth, program=True)

    def _build(self, name: str, words: tuple[ScriptWord, ...]) -> None:
        """The files that say what a build tool does, also those and in those directories that its arguments name."""
        self._embedded(words, name)
        for at, word in enumerate(words):
            follows = at > 0 and _BUILD_FILE_OPTIONS.fullmatch(words[at - 1].shown)
            if word.text is None and (follows or _BUILD_FILE_OPTIONS.match(word.shown)):
                self._doubt(f"which files `{name}` in it reads cannot be known in advance")
            elif _BUILD_SHELL.match(word.shown):
                self._doubt(f"with which program `{name}` runs its commands is changed")
        named = [word.text.partition("=")[2] or word.text for word in words if word.text]
        named += [text[2:] for text in named if re.match(r"-[Cf].", text)]
        for file in _BUILD_FILES[name]:
            self._code_file(file)
            for text in named:
                self._code_file(os.path.join(text, file))
        for text in named:
            self._code_file(text)

    def _fed(self, command: ScriptCommand, name: str, words: tuple[ScriptWord, ...]) -> None:
        """What a program reads from its input may be commands."""
        for text in command.inputs:
            if text is not None:
                self._found.code.append((text, f"the input of `{name}`"))
        for operator, word in command.redirects:
            if operator.startswith("<") and word.text is not None:
                self._code_file(word.text)
        if name not in _TAKES_COMMANDS:
            return
        if command.piped or None in command.inputs:
            self._doubt(f"what `{name}` in it runs cannot be known in advance")
        for word in words:
            if word.text is not None:
                self._code_file(word.text)

    def _shell(self, command: ScriptCommand, words: tuple[ScriptWord, ...], depth: int) -> None:
        after = next((at for at, word in enumerate(words) if re.match(r"-[a-zA-Z]*c[a-zA-Z]*$", word.shown)), None)
        if any(word.many or word.text is None for word in words[: None if after is None else after + 2]):
            self._doubt("what the shell in it runs cannot be known in advance")
        if after is not None:
            self._strings(words[after + 1 :], depth)
            return
        operands = [word for word in words if not word.shown.startswith(("-", "+"))]
        for word in operands:
            self._file(word, depth)
        if not operands:
            self._input(command, depth)

    def _input(self, command: ScriptCommand, depth: int) -> None:
        """What a shell reads from its input."""
        files = [word for operator, word in command.redirects if operator.startswith("<")]
        for word in files:
            self._file(word, depth)
        for text in command.inputs:
            if text is None:
                self._doubt("the input of the shell in it cannot be known in advance")
            else:
                self.script(text, depth + 1)
        if not files and not command.inputs:
            self._doubt("a shell in it gets its commands from somewhere else")

    def _eval(self, words: tuple[ScriptWord, ...], depth: int) -> None:
        texts = [word.text for word in words]
        if any(text is None for text in texts):
            self._doubt("what `eval` runs cannot be known in advance")
        self.script(" ".join(text for text in texts if text is not None), depth + 1)

    def _strings(self, words: tuple[ScriptWord, ...], depth: int) -> None:
        for word in words:
            if word.text is None:
                self._doubt("what a shell in it runs cannot be known in advance")
            else:
                self.script(word.text, depth + 1)
                if assigned := re.match(r"[\w.-]+=", word.text):  # `alias name=command`
                    self.script(word.text[assigned.end() :], depth + 1)

    def _interpreter(self, command: ScriptCommand, name: str, words: tuple[ScriptWord, ...], depth: int) -> None:
        for word in words:
            if word.text is None:
                known = "".join(part or " " for part in word.parts)
                self._found.code.append((known, f"the code for `{name}`"))
            elif not self._code_file(word.text):
                self._found.code.append((word.text, f"the code for `{name}`"))
        for text in command.inputs:
            if text is not None:
                self._found.code.append((text, f"the code for `{name}`"))
        if command.piped and not [word for word in words if not word.shown.startswith("-")]:
            self._doubt(f"`{name}` in it gets its code from another command")
        del depth

    def _git(self, words: tuple[ScriptWord, ...]) -> None:
        texts = [word.shown for word in words]
        if _GIT_RUNS.intersection(texts) or any(text == "-c" or text.startswith("--config-env") for text in texts):
            self._found.code.append((f"git {' '.join(texts)}", "a command for git to run"))
        for before, word in zip((None, *texts), words, strict=False):
            known = "".join(part or " " for part in word.parts)
            is_said = _GIT_WORDS.match(known) or (before is not None and _GIT_WORDS.fullmatch(before))
            if re.search(r"\s", known) and not is_said:  # --upload-pack, --exec, -O and others name a command
                text = known[2:] if re.match(r"-\w", known) else known
                self._found.code.append((text, "an argument of `git`"))

    def _embedded(self, words: tuple[ScriptWord, ...], name: str) -> None:
        """Words with blanks in them: code, for programs that run some."""
        for word in words:
            known = "".join(part or " " for part in word.parts)
            if re.search(r"\s", known):
                self._found.code.append((known, f"an argument of `{name}`"))

    # -- files

    def _enter(self, word: ScriptWord) -> None:
        if word.text is None:
            return
        places = [os.path.normpath(Path(place, word.text)) for place in self._found.places]
        self._found.places += [place for place in places if place not in self._found.places][:8]

    def _file(self, word: ScriptWord, depth: int, *, program: bool = False) -> None:
        """A script that is run. A program of the machine's own is none."""
        if word.text is None:
            self._doubt("which script it runs cannot be known in advance")
            return
        for content in self._contents(word.text, required=not program or is_missing(word.text, self._found.places)):
            if program and not _is_shell_script(content):
                if content.startswith("#!"):
                    self._found.code.append((content, f"the script {word.text}"))
                continue
            self.script(content, depth + 1)

    def _code_file(self, name: str) -> bool:
        found = list(self._contents(name, required=False))
        self._found.code += [(content, f"the file {name}") for content in found]
        return bool(found)

    def _contents(self, name: str, *, required: bool) -> Iterator[str]:
        there = False
        for place in tuple(self._found.places):
            path = os.path.normpath(os.path.join(place, os.path.expanduser(name)))
            try:
                if path in self._read or not Path(path).is_file():
                    there = there or path in self._read
                    continue
                size = Path(path).stat().st_size
            except (OSError, ValueError):
                continue
            there = True
            self._read.add(path)
            if size > MAX_SCRIPT_BYTES or len(self._read) > MAX_SCRIPTS:
                if required or _starts_with_hash_bang(path):
                    self._doubt(f"the script {name} is too long to be checked")
                continue
            try:
                yield Path(path).read_bytes().decode(errors="replace")
            except OSError:
                self._doubt(f"the script {name} cannot be read")
        if required and not there:
            self._doubt(f"the script {name} is not there yet")

    def _doubt(self, words: str) -> None:
        if words not in self._found.doubts:
            self._found.doubts.append(words)


def _name(word: ScriptWord) -> str | None:
    """The program's name without its directory; None if it is not known."""
    return None if word.text is None else word.text.rpartition("/")[2]


def _ends_with_a_wrapper(words: list[str]) -> bool:
    """Whether the program itself is still missing: `env`, `timeout 5`.

    >>> _ends_with_a_wrapper(["-0", "env", "-i"]), _ends_with_a_wrapper(["timeout", "5", "wc"])
    (True, False)
    """
    for word in reversed(words):
        if Path(word).name in WRAPPERS:
            return True
        if not _NO_PROGRAM.fullmatch(word):
            return False
    return False


def _is_shell_script(content: str) -> bool:
    first = content.partition("\n")[0]
    if not first.startswith("#!"):
        return "\0" not in content[:1000]  # a text without an interpreter is run by the shell
    return any(SHELL.fullmatch(word.rpartition("/")[2]) for word in first[2:].split())


def _starts_with_hash_bang(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True
