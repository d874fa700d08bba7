"""Where programs and modules may come from, and that no other module starts a Python or looks for a program."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hames
from hames.agents.codex.command import codex_command
from hames.executables import (
    absolute_path,
    find_program,
    find_ripgrep,
    hames_command,
    import_path,
    script_command,
    with_interpreter,
)

PACKAGE = Path(hames.__file__).parent
EXCEPTIONS = {
    # Which Python the demo's scripted model types into its shell: the agent's command, in the sandbox.
    ("cli/demo.py", "sys.executable"),
    # Which Python tries to escape from the sandbox: started inside it, and isolated there.
    ("sandbox/proof/targets.py", "sys.executable"),
    ("sandbox/proof/targets.py", "shutil.which"),
    ("sandbox/trust/rules/programs.py", "shutil.which"),  # compares files and starts none
    # bubblewrap is looked for in a fixed list of directories of the system.
    ("sandbox/walls/probe.py", "shutil.which"),
    # git of a worktree runs inside the sandbox, by the PATH of commands there.
    ("worktrees/git.py", "argv of git"),
}
INTERPRETERS = ("python", "python3", "git", "node", "npx", "rg", "codex")


@pytest.fixture(scope="module")
def sources() -> list[tuple[str, ast.Module]]:
    names = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
    return [
        (name, ast.parse(path.read_text()))
        for name, path in names.items()
        if name != "executables.py" and "demo_files" not in name
    ]


def suspicious(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Everything that looks like starting a Python, or like finding a program by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in ("sys.executable", "sys._base_executable", "shutil.which", "os.system", "os.popen"):
                yield name, node.lineno
        if isinstance(node, ast.ImportFrom) and node.module in ("shutil", "sys", "os"):
            for alias in node.names:
                if alias.name in ("which", "executable", "system", "popen"):
                    yield f"{node.module}.{alias.name}", node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            if any(name.partition(".")[0] in ("multiprocessing", "runpy") or "to_process" in name for name in names):
                yield "another process", node.lineno
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            words = [one.value for one in node.elts if isinstance(one, ast.Constant)]
            first = node.elts[0]
            if "-m" in words and "hames" in "".join(str(word) for word in words):
                yield "-m hames", node.lineno
            options = any(isinstance(word, str) and word.startswith("-") for word in words)
            if isinstance(first, ast.Constant) and first.value in INTERPRETERS and options:
                yield f"argv of {first.value}", node.lineno


def test_no_other_module_starts_a_python_or_looks_for_a_program(sources: list[tuple[str, ast.Module]]) -> None:
    found = [(name, what, line) for name, tree in sources for what, line in suspicious(tree)]
    assert [one for one in found if (one[0], one[1]) not in EXCEPTIONS] == []
    assert {(name, what) for name, what, _ in found} == EXCEPTIONS, "an exception that is no longer needed"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; x = [sys.executable, '-m', 'hames']",
        "from sys import executable",
        "argv = ['python3', '-m', 'hames', 'serve']",
        "subprocess.run(['git', '-C', place, 'status'])",
        "import shutil; shutil.which('rg')",
        "from shutil import which",
        "from anyio import to_process",
        "import multiprocessing.pool",
        "import os; os.system('x')",
    ],
)
def test_the_search_above_finds_what_it_looks_for(code: str) -> None:
    assert list(suspicious(ast.parse(code)))


def test_nothing_is_executed_through_a_shell(sources: list[tuple[str, ast.Module]]) -> None:
    for name, tree in sources:
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "shell" and isinstance(node.value, ast.Constant):
                pytest.fail(f"{name}:{node.value.lineno} starts a program through a shell")


def test_a_command_of_ours_is_isolated_and_runs_this_very_package(tmp_path: Path) -> None:
    command = hames_command("--version")
    assert command[:2] == [sys.executable, "-I"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"hames {hames.__version__}\n"


def test_a_script_of_ours_has_the_standard_library_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import json, sys; print(sys.flags.isolated, sys.flags.no_site, sys.argv[1:], sys.path)")
    (tmp_path / "json.py").write_text("raise SystemExit('imported from here')")
    done = subprocess.run(
        script_command(str(script), "a", "b"), cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("1 1 ['a', 'b']")
    assert str(tmp_path) not in done.stdout


@pytest.mark.parametrize("utf8", ["0", "1"])
def test_a_command_of_ours_reads_text_as_we_do(tmp_path: Path, utf8: str) -> None:
    code = (
        "import subprocess; from hames.executables import script_command as c; "
        "print(subprocess.run(c('show.py'), capture_output=True, text=True).stdout.strip())"
    )
    (tmp_path / "show.py").write_text("import sys; print(sys.flags.utf8_mode)")
    environment = {"PYTHONUTF8": utf8, "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == utf8


def test_what_lies_in_the_workspace_or_here_is_not_on_the_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, workspace, elsewhere = tmp_path / "here", tmp_path / "workspace", tmp_path / "elsewhere"
    for directory in (here, workspace, elsewhere):
        (directory / "lib").mkdir(parents=True)
    (tmp_path / "link").symlink_to(workspace)
    monkeypatch.chdir(here)
    hostile = ["", ".", "lib", str(here), str(here / "lib"), str(workspace), str(workspace / "lib")]
    hostile += [str(tmp_path / "link" / "lib"), f"{here}/../here", "/proc/self/cwd"]
    monkeypatch.setattr(sys, "path", [*hostile, str(elsewhere), "/usr/lib/python3"])
    assert import_path(str(workspace)) == [str(elsewhere), "/usr/lib/python3", str(PACKAGE.parent)]


def test_a_path_of_programs_has_absolute_entries_only() -> None:
    assert absolute_path("/usr/bin:/bin") == "/usr/bin:/bin"
    assert absolute_path(".:/usr/bin::bin:../x:~/bin:") == "/usr/bin"
    for nothing in ("", ".", ":", "bin:."):
        assert absolute_path(nothing) == os.defpath


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, which is the current directory, with programs in it and in its `bin`."""
    workspace = tmp_path / "workspace"
    for directory in (workspace, workspace / "bin"):
        directory.mkdir(exist_ok=True)
        for name in ("rg", "codex", "node", "sh"):
            (directory / name).write_text("#!/usr/bin/env node\n")
            (directory / name).chmod(0o755)
    monkeypatch.chdir(workspace)
    return workspace


@pytest.mark.parametrize(
    "path", ["", ".", "bin", "./bin", "{workspace}", "{workspace}/bin", "{workspace}/../workspace"]
)
def test_no_program_of_the_workspace_is_found(planted: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = path.format(workspace=planted)
    assert find_program("codex", path=f"{named}:/usr/bin", workspace=str(planted)) == ""
    assert find_program("sh", path=f"{named}:/usr/bin:/bin", workspace=str(planted)) in ("/usr/bin/sh", "/bin/sh")
    assert codex_command({"PATH": named}, str(planted)) == []
    assert codex_command({"PATH": named, "HAMES_CODEX": "codex"}, str(planted)) == []
    monkeypatch.setenv("PATH", named)
    assert not find_ripgrep(str(planted)).startswith((str(planted), ".", "rg"))


def test_codex_runs_with_a_node_from_outside_the_workspace(planted: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("codex", "node"):
        (outside / name).write_text("#!/usr/bin/env node\n")
        (outside / name).chmod(0o755)
    path = f"{planted}/bin:.:{outside}"
    assert codex_command({"PATH": path}, str(planted)) == [f"{outside}/node", f"{outside}/codex"]
    named = codex_command({"PATH": path, "HAMES_CODEX": "./codex"}, str(planted))
    assert named == [f"{outside}/node", f"{planted}/codex"], "a path that the user names is the user's choice"


@pytest.mark.parametrize("text", [b"", b"\x7fELF", b"#!/bin/sh\n", b"#!/usr/bin/env -S node --x\n", b"#!\n"])
def test_a_program_without_an_interpreter_to_look_for_is_started_as_it_is(tmp_path: Path, text: bytes) -> None:
    program = tmp_path / "program"
    program.write_bytes(text)
    assert with_interpreter(str(program), path="/usr/bin") == [str(program)]
    assert with_interpreter(str(tmp_path / "missing"), path="/usr/bin") == [str(tmp_path / "missing")]
