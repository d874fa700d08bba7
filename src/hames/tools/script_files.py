"""The files that decide what a command does: scripts it names, and build files that its programs read by themselves.

`always` for a command holds while these stay as they were. Which words are files is guessed at generously: one file
too many only means one more question.
"""

import glob
import hashlib
import itertools
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from hames.deferred import pattern
from hames.domain.policy import ScriptFile
from hames.domain.value import Value

MAX_COMMAND = 16 * 1024
MAX_FILES = 64
MAX_FILE_BYTES = 8 << 20
MAX_DIRECTORIES = 16

_ASSIGNMENT = pattern(r"[A-Za-z_]\w*=")
_OPERATORS = ";|&()<>\n"
_PIECES = pattern(r"[\s;|&()<>\"'`={}$,]+")
_INTERPRETERS = pattern(
    r"(?:ba|da|k|z|fi|c|tc)?sh|source|\.|python[\d.]*|pypy[\d.]*|node(?:js)?|deno|bun|tsx|ts-node|ruby|perl|php|lua[\d.]*"
    r"|Rscript|julia|pwsh|tclsh|expect|osascript|groovy|ansible-playbook|java|swift|elixir|escript"
)
_SHELL = pattern(r"(?:ba|da|k|z|fi|c|tc)?sh")
_CODE = frozenset(("-c", "-e", "-E", "-p", "-pe", "--eval", "--print"))
_NAMES_FILE = frozenset(
    (
        "-f",
        "--file",
        "--makefile",
        "--justfile",
        "--taskfile",
        "--tasks",
        "-c",
        "--config",
        "--rakefile",
        "--build-file",
    )
)
_NPM = ("package.json",)
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml", "Dockerfile")
_GRADLE = ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
_READ_BY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake", "bmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "bunx"), _NPM),
    **dict.fromkeys(("gradle", "gradlew"), _GRADLE),
    **dict.fromkeys(("mvn", "mvnw"), ("pom.xml",)),
    **dict.fromkeys(("docker", "docker-compose", "podman"), _COMPOSE),
    **dict.fromkeys(("hatch", "pdm", "poe"), ("pyproject.toml",)),
    **dict.fromkeys(("invoke", "inv"), ("tasks.py",)),
    **{
        program: tuple(f"{config}.{ending}" for config in configs for ending in ("js", "mjs", "cjs", "ts", "mts"))
        for program, configs in {
            "cypress": ("cypress.config",),
            "eslint": ("eslint.config", ".eslintrc"),
            "jest": ("jest.config",),
            "karma": ("karma.conf",),
            "mocha": (".mocharc",),
            "playwright": ("playwright.config",),
            "rollup": ("rollup.config",),
            "vite": ("vite.config",),
            "vitest": ("vitest.config", "vite.config"),
            "webpack": ("webpack.config",),
        }.items()
    },
    "ant": ("build.xml",),
    "bundle": ("Gemfile",),
    "cargo": ("Cargo.toml", "build.rs", ".cargo/config.toml"),
    "cmake": ("CMakeLists.txt",),
    "composer": ("composer.json",),
    "deno": ("deno.json", "deno.jsonc"),
    "fab": ("fabfile.py",),
    "grunt": ("Gruntfile.js",),
    "gulp": ("gulpfile.js",),
    "just": ("justfile", "Justfile", ".justfile"),
    "foreman": ("Procfile",),
    "latexmk": ("latexmkrc", ".latexmkrc"),
    "meson": ("meson.build",),
    "mise": ("mise.toml", ".mise.toml"),
    "mix": ("mix.exs",),
    "ninja": ("build.ninja",),
    "nox": ("noxfile.py",),
    "pre-commit": (".pre-commit-config.yaml",),
    "rake": ("Rakefile",),
    "sbt": ("build.sbt",),
    "scons": ("SConstruct",),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "tox": ("tox.ini", "setup.cfg", "pyproject.toml"),
    "vagrant": ("Vagrantfile",),
    "zig": ("build.zig",),
}
_SYSTEM = ("/bin/", "/dev/", "/etc/", "/lib", "/nix/", "/proc/", "/sbin/", "/sys/", "/usr/")
"""Where programs are the machine's own, and no command of an agent's can change them unasked."""


class ScriptFiles(Value):
    """`complete`: no such file is missing here because it was too large, one too many, or has a name that only the
    shell can find out."""

    files: tuple[ScriptFile, ...] = ()
    complete: bool = True


def script_files(command: str, cwd: str, *, every: bool) -> ScriptFiles:
    """What decides what a command does, as it is now. `every`: each file it names, and not only what it runs."""
    if len(command) > MAX_COMMAND:
        return ScriptFiles(complete=False)
    try:
        return ScriptFiles(files=tuple(_files(command, cwd, every=every)))
    except _NotAll:
        return ScriptFiles(complete=False)


def is_plain_word(command: str) -> bool:
    """One word that names no file: the usual quick command, for which nothing has to be looked up."""
    return re.fullmatch(r"[\w-]+", command) is not None and command not in _READ_BY


class _NotAll(Exception):
    """Some of the files cannot be found or remembered."""


def _files(command: str, cwd: str, *, every: bool) -> Iterator[ScriptFile]:
    names: dict[str, bool] = {}
    """Each with whether it counts even if it is no program."""
    directories = [cwd]
    commands = list(_commands(command))
    every = every or any(map(_reads_script_from_input, commands))
    for words in commands:
        for word in words:
            _enter(word, directories)
        scripts = list(_scripts_run(words))
        if any(set("$`{").intersection(word.replace("{}", "")) for word in scripts):
            raise _NotAll
        names |= dict.fromkeys(_expanded(words if every else scripts, directories), True)
        if every or _is_dynamic(words):
            names |= dict.fromkeys(_all_names(words), True)
            continue
        for name in words:
            names.setdefault(name, False)
        names |= dict.fromkeys(_script_names(words), True)
    candidates: dict[str, bool] = {}
    for directory in directories:
        for name, counts in names.items():
            path = os.path.normpath(name if name.startswith("/") else f"{directory}/{name}")
            candidates[path] = counts or candidates.get(path, False)
    found = 0
    for path, counts in sorted(candidates.items()):
        script = _looked_at(path, programs_only=not counts)
        if script is not None:
            found += 1
            if found > MAX_FILES:
                raise _NotAll
            yield script


def _commands(command: str) -> Iterator[list[str]]:
    """The words of each simple command; what cannot be read as such comes in pieces."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for token in lexer:
            if token.strip(_OPERATORS):
                words.append(token)
            elif not {"<", ">"}.intersection(token):
                yield words
                words = []
    except ValueError:
        yield ["$", *filter(None, _PIECES.split(command))]
        return
    yield words


def _reads_script_from_input(words: list[str]) -> bool:
    """`cat build.sh | bash`: what is run comes from any of the files that the line names."""
    return any(
        _INTERPRETERS.fullmatch(word.rpartition("/")[2]) and all(later.startswith("-") for later in words[at + 1 :])
        for at, word in enumerate(words)
    )


def _is_dynamic(words: list[str]) -> bool:
    """Whether the shell decides only when it runs what the words are."""
    return any(set("$`*?[{~").intersection(word) for word in words)


def _scripts_run(words: list[str]) -> Iterator[str]:
    """The program of a simple command, and the script that an interpreter in it is given."""
    yield from [word for word in words if not _ASSIGNMENT.match(word)][:1]
    for at, word in enumerate(words):
        if not _INTERPRETERS.fullmatch(name := word.rpartition("/")[2]):
            continue
        for place, later in enumerate(words[at + 1 :], at + 1):
            if _SHELL.fullmatch(name) and re.fullmatch(r"-[a-z]*c", later):
                for inner in _commands(words[place + 1] if place + 1 < len(words) else ""):
                    yield from _scripts_run(inner)
                break
            if not _SHELL.fullmatch(name) and (later == "-m" or later in _CODE):
                break
            if not later.startswith("-"):
                yield later
                break


def _expanded(words: Iterable[str], directories: list[str]) -> Iterator[str]:
    """What the shell makes of `*.sh` and `~/x`."""
    for word in words:
        if set("*?[").intersection(word) and not set("$`").intersection(word):
            for directory in directories:
                found = glob.iglob(_from_home(word), root_dir=directory)  # noqa: PTH207 (patterns may be absolute)
                names = list(itertools.islice(found, MAX_FILES + 1))
                if len(names) > MAX_FILES:
                    raise _NotAll
                yield from names
        elif word.startswith("~"):
            yield _from_home(word)


def _from_home(word: str) -> str:
    return str(Path(word).expanduser()) if word.startswith("~") else word


def _enter(word: str, directories: list[str]) -> None:
    """`cd web`, `make -C lib`, `npm --prefix=app`: files may be named from there."""
    for name in _forms(word):
        for directory in list(directories):
            path = os.path.normpath(Path(directory, name))
            if path not in directories and _is_directory(path):
                directories.append(path)
                if len(directories) > MAX_DIRECTORIES:
                    raise _NotAll


def _all_names(words: list[str]) -> Iterator[str]:
    for word in words:
        yield from _forms(word)
        yield from filter(None, _PIECES.split(word))
    yield from _read_by_programs(words)


def _script_names(words: list[str]) -> Iterator[str]:
    """What an interpreter is given to run, and what build tools read."""
    running = False
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        if running:
            yield word
        before = words[at - 1] if at else ""
        if any(blank in word for blank in " \t\n") or before in _CODE:  # `bash -c 'sh build.sh'`
            yield from filter(None, _PIECES.split(word))
        if _ASSIGNMENT.match(word):  # `BASH_ENV=build.sh bash x`
            yield word.partition("=")[2]
        if before in _NAMES_FILE or word.partition("=")[0] in _NAMES_FILE:
            yield from _forms(word)
        if not running and _INTERPRETERS.fullmatch(name):
            running = _runs_files(name, words[at + 1 :])
    yield from _read_by_programs(words)


def _runs_files(interpreter: str, words: list[str]) -> bool:
    """Whether it runs the files it is given. A test runner does not: those are what is worked on."""
    for word in words:
        if word in ("-m", "--test") or (interpreter in ("bun", "deno") and word == "test"):
            return False
        if not word.startswith("-"):
            break
    return True


def _read_by_programs(words: list[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        yield from _READ_BY.get(word.rpartition("/")[2], ())
        module = words[at + 1] if word == "-m" and at + 1 < len(words) else word[2:] if word.startswith("-m") else ""
        if module := module.replace(".", "/"):
            yield from (f"{module}.py", f"{module}/__main__.py")


def _forms(word: str) -> Iterator[str]:
    """A word, and what an option in it may have for a value."""
    yield word
    if "=" in word:
        yield word.partition("=")[2]
    if re.match(r"-[A-Za-z].", word):
        yield word[2:]


def _is_directory(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def _looked_at(path: str, *, programs_only: bool) -> ScriptFile | None:
    """A regular file as it is now; None for everything else."""
    if path.startswith(_SYSTEM):
        return None
    try:
        target = os.path.realpath(path)
        about = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(about.st_mode) or (programs_only and not about.st_mode & 0o111):
        return None
    if about.st_size > MAX_FILE_BYTES:
        raise _NotAll
    link = target if target != os.path.realpath(Path(path).parent) + "/" + Path(path).name else ""
    return ScriptFile(path=path, sha256=_sha256(path), target=link)


def _sha256(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.sha256(file.read(MAX_FILE_BYTES + 1)).hexdigest()
