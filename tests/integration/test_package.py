"""What people install: the wheel and the sdist, in an environment that has nothing else, on a machine without Node."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a wheel and an sdist of this checkout."""
    out = tmp_path_factory.mktemp("dist")
    python = ("--python", sys.executable)
    run(UV, "build", "--quiet", "--offline", "--no-build-isolation", *python, "--out-dir", out, ROOT, cwd=out)
    return out


@pytest.fixture(
    scope="module",
    params=[pytest.param("*.whl", id="wheel"), pytest.param("*.tar.gz", id="sdist", marks=pytest.mark.slow)],
)
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """`bin` of an environment with the wheel or the sdist, and what it asks for by itself."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    wheel = next(built.glob(request.param))
    run(sys.executable, "-m", "venv", venv, cwd=built)
    lock = ROOT / "requirements.lock"
    into = ("--python", venv / "bin" / "python")
    if subprocess.run([UV, "pip", "install", "-q", *into, "-c", lock, wheel], cwd=built, check=False).returncode != 0:
        # A machine may reach its index only through pip's own settings.
        pinned = [line.split(" ;")[0].rstrip(" \\") for line in lock.read_text().splitlines() if "==" in line]
        constraints = built / "constraints.txt"
        constraints.write_text("\n".join(pinned))
        run(venv / "bin" / "python", "-m", "pip", "install", "-q", "-c", constraints, wheel, cwd=built)
    return venv / "bin"


def environment(bin_directory: Path, home: Path) -> dict[str, str]:
    """No Node, and nothing of the environment that the tests run in."""
    programs = home / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("bwrap", "rg", "git", "sh", "bash", "env"):
        found = shutil.which(name)
        if found and not (programs / name).exists():
            (programs / name).symlink_to(found)
    return {"PATH": f"{bin_directory}:{programs}", "HOME": str(home), "LANG": "C.UTF-8"}


def test_the_wheel_holds_the_page_and_nothing_of_the_checkout(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert "hames/web/static/index.html" in names
    assert any(name.startswith("hames/web/static/assets/") and name.endswith(".js") for name in names)
    assert "hames/cli/demo_files/script.json" in names
    assert "hames/py.typed" in names
    assert not [name for name in names if not name.startswith(("hames/", "hames-"))]
    assert not [name for name in names if "__pycache__" in name]


def test_the_sdist_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        sdist.extractall(tmp_path, filter="data")
    source = next(tmp_path.iterdir())
    again = tmp_path / "again"
    run(UV, "build", "--quiet", "--offline", "--no-build-isolation", "--wheel", "--python", sys.executable,
        "--out-dir", again, source, cwd=tmp_path)  # fmt: skip
    with zipfile.ZipFile(next(built.glob("*.whl"))) as one, zipfile.ZipFile(next(again.glob("*.whl"))) as two:
        ours = {name: one.read(name) for name in one.namelist() if not name.endswith("RECORD")}
        theirs = {name: two.read(name) for name in two.namelist() if not name.endswith("RECORD")}
    assert ours == theirs


@pytest.mark.needs("bwrap")
def test_a_plain_install_has_the_terminal_the_server_the_page_and_mcp(installed: Path, tmp_path: Path) -> None:
    env = environment(installed, tmp_path)
    hames = installed / "hames"
    assert run(hames, "--version", cwd=tmp_path, env=env).startswith("hames ")
    assert run(installed / "python", "-m", "hames", "-V", cwd=tmp_path, env=env).startswith("hames ")
    modules = "hames.tui.app, hames.server.app, hames.tools.mcp.servers, mcp, textual, uvicorn"
    run(installed / "python", "-I", "-c", f"import {modules}", cwd=tmp_path, env=env)
    answer = run(hames, "run", "--model", "scripted/hello", "Hello?", cwd=tmp_path, env=env)
    assert answer.startswith("Hello.")
    assert "the tests pass" in run(hames, "demo", cwd=tmp_path, env=env)


def test_the_installed_server_serves_its_page(installed: Path, tmp_path: Path) -> None:
    import urllib.request

    env = environment(installed, tmp_path)
    server = subprocess.Popen(
        [installed / "hames", "serve", "--port", "0", "--model", "scripted/hello"],
        cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout
        line = server.stdout.readline()
        url = next(word for word in line.split() if word.startswith("http://"))
        with urllib.request.urlopen(url, timeout=30) as page:
            text = page.read().decode()
        assert "<!doctype html>" in text.lower()
        assets = re.findall(r'"[.](/assets/[^"]+[.](?:js|css))"', text)
        assert len(assets) >= 2, text
        static = next(installed.parent.glob("lib/python*/site-packages/hames/web/static"))
        for asset in assets:
            for encoding, suffix in (("br", ".br"), ("gzip", ".gz")):
                wanted = urllib.request.Request(url.rstrip("/") + asset, headers={"accept-encoding": encoding})
                with urllib.request.urlopen(wanted, timeout=30) as answer:
                    assert answer.headers["content-encoding"] == encoding
                    sent = answer.read()
                assert sent == (static / f"{asset[1:]}{suffix}").read_bytes(), "compressed when it was built"
    finally:
        server.terminate()
        server.wait(timeout=60)


def test_it_runs_once_without_being_installed(built: Path, tmp_path: Path) -> None:
    """What `uvx hames` does."""
    ours = {"HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "cache")}
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | ours
    wheel, constraints = next(built.glob("*.whl")), ("--constraints", ROOT / "requirements.lock")
    words = ("run", "--model", "scripted/hello", "Hello?")
    python = ("--python", sys.executable)
    said = run(UV, "tool", "run", "-q", *python, *constraints, "--from", wheel, "hames", *words, cwd=tmp_path, env=env)
    assert said.startswith("Hello.")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_other_pythons_install_and_run_it(built: Path, version: str, tmp_path: Path) -> None:
    python = next((found for found in _pythons(version)), None)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    venv = tmp_path / "venv"
    run(python, "-m", "venv", venv, cwd=tmp_path)
    run(UV, "pip", "install", "-q", "--python", venv / "bin" / "python", next(built.glob("*.whl")), cwd=tmp_path)
    env = environment(venv / "bin", tmp_path)
    answer = run(venv / "bin" / "hames", "run", "--model", "scripted/hello", "Hello?", cwd=tmp_path, env=env)
    assert answer.startswith("Hello.")
    assert "the tests pass" in run(venv / "bin" / "hames", "demo", cwd=tmp_path, env=env)


def _pythons(version: str) -> list[str]:
    """Interpreters of this version that really start: a version manager leaves names behind that do not."""
    versions = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin"))
    named = [shutil.which(f"python{version}"), *(str(path / f"python{version}") for path in versions)]
    return [
        path
        for path in named
        if path and subprocess.run([path, "-c", "import venv"], capture_output=True, check=False).returncode == 0
    ]


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    specification = importlib.util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    assert specification is not None
    assert specification.loader is not None
    release = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(release)
    changelog = "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.1] - today\n\n- new\n\n## [1.0]\n\n- old\n"
    assert release.section(changelog, "1.1") == "- new"
    assert release.section(changelog, "1.0") == "- old"
    with pytest.raises(SystemExit, match="no section"):
        release.section(changelog, "2.0")
