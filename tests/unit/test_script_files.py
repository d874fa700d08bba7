"""Which files decide what a command does."""

import os
from pathlib import Path

import pytest

from hames.tools.script_files import MAX_FILE_BYTES, MAX_FILES, script_files

FILES = {
    "build.sh": 0o644,
    "run.sh": 0o755,
    "Makefile": 0o644,
    "package.json": 0o644,
    "data.json": 0o644,
    "tool/__main__.py": 0o644,
    "tools/x.py": 0o644,
    "tools/run": 0o755,
    "tests/test_a.py": 0o644,
    "web/package.json": 0o644,
    "lib/Makefile": 0o644,
    "lib/other.mk": 0o644,
    "my script.sh": 0o644,
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name, mode in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    return tmp_path


def named(command: str, workspace: Path, *, every: bool = False) -> list[str]:
    found = script_files(command, str(workspace), every=every)
    assert found.complete
    return [os.path.relpath(script.path, workspace) for script in found.files]


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("bash build.sh", ["build.sh"]),
        ("sh -x ./build.sh --fast", ["build.sh"]),
        ("./run.sh", ["run.sh"]),
        ("time ./run.sh && echo ok", ["run.sh"]),
        ("FOO=1 env BAR=2 bash build.sh", ["build.sh"]),
        ("source build.sh", ["build.sh"]),
        (". ./build.sh; ls", ["build.sh"]),
        ("bash < build.sh", ["build.sh"]),
        ("cat build.sh | bash", ["build.sh"]),
        ("bash build.sh 2>&1 && pytest tests/test_a.py", ["build.sh"]),
        ("bash build.sh; pytest tests/test_a.py", ["build.sh"]),
        ("bash -c 'sh build.sh'", ["build.sh"]),
        ("bash 'my script.sh'", ["my script.sh"]),
        ("find . -name x -exec ./run.sh {} +", ["run.sh"]),
        ("git bisect run tools/run", ["tools/run"]),
        ("python tools/x.py data.json", ["data.json", "tools/x.py"]),
        ("python3.11 -u tools/x.py test", ["tools/x.py"]),
        ("python -m tool", ["tool/__main__.py"]),
        ("cd tools && python x.py", ["tools/x.py"]),
        ("cd web; npm test", ["package.json", "web/package.json"]),
        ("make", ["Makefile"]),
        ("make -j4 all", ["Makefile"]),
        ("make -C lib", ["Makefile", "lib/Makefile"]),
        ("make -f lib/other.mk", ["Makefile", "lib/other.mk"]),
        ("make --file=lib/other.mk", ["Makefile", "lib/other.mk"]),
        ("npm run build", ["package.json"]),
        ("npm --prefix web test", ["package.json", "web/package.json"]),
        ("echo $SCRIPT; bash build.sh", ["build.sh"]),
        ("bash buil?.sh", ["build.sh"]),
        ("bash -x b*.sh", ["build.sh"]),
        ("cd tools; python *.py", ["tools/x.py"]),
        ("BASH_ENV=build.sh bash -c true", ["build.sh"]),
        ("python -c \"exec(open('build.sh').read())\"", ["build.sh"]),
        ("python -mtool", ["tool/__main__.py"]),
    ],
)
def test_scripts_and_build_files_count(workspace: Path, command: str, files: list[str]) -> None:
    assert named(command, workspace) == files


@pytest.mark.parametrize(
    "command",
    [
        "pytest tests/test_a.py",
        "python -m pytest tests/test_a.py",
        "node --test tests/test_a.py",
        "ruff check tools/x.py",
        "cat build.sh",
        "ls -la",
        "bash missing.sh",
        "bash /usr/bin/which ls",
    ],
)
def test_what_a_command_works_on_does_not_count_behind_walls(workspace: Path, command: str) -> None:
    assert named(command, workspace) == []


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("pytest tests/test_a.py", ["tests/test_a.py"]),
        ("pytest --config=data.json", ["data.json"]),
        ("deploy data.json", ["data.json"]),
        ("x <data.json", ["data.json"]),
        ('eval "$(cat build.sh)"', ["build.sh"]),
        ("curl -d@data.json x", []),
    ],
)
def test_without_walls_every_file_it_names_counts(workspace: Path, command: str, files: list[str]) -> None:
    assert named(command, workspace, every=True) == files


def test_content_links_and_absence_are_told_apart(workspace: Path) -> None:
    def look() -> object:
        return script_files("bash build.sh", str(workspace), every=True)

    path = workspace / "build.sh"
    first = look()
    assert look() == first
    path.write_text("something else")
    second = look()
    (workspace / "same").write_text("something else")
    path.unlink()
    path.symlink_to("same")
    third = look()
    path.unlink()
    assert len({str(state) for state in (first, second, third, look())}) == 4
    path.write_text("build.sh")
    assert look() == first


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_counts_as_it_is(workspace: Path) -> None:
    (workspace / "build.sh").chmod(0)
    assert named("bash build.sh", workspace) == ["build.sh"]


def test_special_files_are_no_scripts(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    assert named("bash pipe", workspace) == []
    assert named("bash tools", workspace) == []


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        "bash $PWD/build.sh",
        'bash "$(pwd)/build.sh"',
        "bash $(pwd)/build.sh",
        "bash `pwd`/build.sh",
        "bash -x ${X:-build.sh}",
        "F=build.sh; bash $F",
        "for f in *.sh; do bash $f; done",
        "bash $SCRIPT build.sh",
        "bash {build,test}.sh",
        "$PWD/run.sh",
        "X=1 $PWD/run.sh",
        "ls && ${HOME}/run.sh",
        "sh -c 'sh $F'",
        "env bash -e $F",
        "python $F",
        "bash 'build.sh",
    ],
)
def test_a_script_that_only_the_shell_can_name_is_not_found(workspace: Path, command: str, every: bool) -> None:
    assert not script_files(command, str(workspace), every=every).complete


@pytest.mark.parametrize("command", ["echo $HOME", "git commit -m 'costs $5'", "awk '{print $1}' data.json", "ls *.sh"])
def test_a_variable_in_any_other_place_is_no_reason_to_ask_again(workspace: Path, command: str) -> None:
    assert script_files(command, str(workspace), every=True).complete


def test_more_than_can_be_remembered_is_said(workspace: Path) -> None:
    with (workspace / "build.sh").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert not script_files("bash build.sh", str(workspace), every=False).complete
    for number in range(MAX_FILES + 1):
        (workspace / f"{number}.sh").touch()
    many = " ".join(f"{number}.sh" for number in range(MAX_FILES + 1))
    assert not script_files(f"bash {many}", str(workspace), every=False).complete
    assert not script_files("bash " + "x" * 20_000, str(workspace), every=False).complete
