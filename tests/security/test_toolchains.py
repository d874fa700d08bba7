"""Common toolchains inside the sandbox, with their installations and downloads where they usually are: at home.

Each is skipped by name where it is not installed.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from home import place, put, sandbox, without_overlays
from walls import Outcome, as_user, bubblewraps, run, users

from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.processes.environment import SYSTEM_PATH

pytestmark = pytest.mark.needs("bwrap", "bash")

WHEEL = """
import sys, zipfile
info = "demo-1.0.dist-info/"
files = {"demo.py": "print('demo is here')\\n",
         info + "METADATA": "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n",
         info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
files[info + "RECORD"] = "".join(f"{name},,\\n" for name in files) + info + "RECORD,,\\n"
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
"""
FILES = {
    "wheel.py": WHEEL,
    "hello.c": '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n',
    "Makefile": "hello: hello.c\n\tgcc -o hello hello.c\n",
    "Cargo.toml": '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/main.rs": 'fn main() { println!("rusted"); }\n',
    "go/go.mod": "module example.org/hello\n\ngo 1.18\n",
    "go/main.go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("gone") }\n',
    "Hello.java": 'public class Hello { public static void main(String[] a) { System.out.println("brewed"); } }\n',
    "app/package.json": '{"name": "app", "version": "1.0.0", "scripts": {"say": "node -p 6*7"}}\n',
    "lib/package.json": '{"name": "lib", "version": "2.0.0", "main": "lib.js"}\n',
    "lib/lib.js": "module.exports = 'from a tarball'\n",
}
GIT = "git -c user.name=a -c user.email=a@b"

WORK: dict[str, tuple[str, str, str]] = {
    # what it needs, the command, what it must say
    "the system's python": ("python3", "python3 -c 'import json, ssl, sqlite3; print(6 * 7)'", "42"),
    "a new environment": (
        "python3",
        "python3 -m venv env && python3 wheel.py demo-1.0-py3-none-any.whl && "
        "env/bin/pip install -q --no-index --find-links . demo && env/bin/python -m demo",
        "demo is here",
    ),
    "npm run": ("npm", "cd app && npm run --silent say", "42"),
    "npm install from a tarball": (
        "npm",
        "npm pack --silent ./lib && cd app && npm install --silent --offline ../lib-2.0.0.tgz && "
        "node -p \"require('lib')\"",
        "from a tarball",
    ),
    "git": (
        "git",
        f"git init -q repo && cd repo && echo x > a && git add a && {GIT} commit -qm one && git status --short && "
        "git clone -q . ../copy && git -C ../copy log --format=%s",
        "one",
    ),
    "make and gcc": ("gcc", "make -s && ./hello", "compiled"),
    "go build": ("go", "cd go && go build -o out . && ./out", "gone"),
    "java": ("javac", "javac Hello.java && java -cp . Hello", "brewed"),
    "perl": ("perl", "perl -MFile::Temp -e 'print 6 * 7'", "42"),
    "ssh": ("ssh", "ssh -G example.org | head -1", "example.org"),
    "package lists": ("dpkg", "dpkg -s bash", "installed"),
}


def has(program: str) -> str | None:
    return shutil.which(program, path=":".join(SYSTEM_PATH))


def filled(here: Path) -> None:
    for name, text in FILES.items():
        put(here, name, text)


async def working(name: str, bubblewrap: str) -> Outcome:
    _, command, _ = WORK[name]
    with place() as base:
        (base / "home").mkdir()
        filled(base / "ws")
        return await run(command, base / "ws", sandbox=sandbox(base / "home", SandboxSettings(bubblewrap=bubblewrap)))


AT_ONCE = list(WORK)[:3]
"""As nobody only these are tried in `make test`; as whoever runs the tests, all of them."""


@pytest.mark.parametrize(
    ("name", "user"),
    [
        pytest.param(name, user, marks=[pytest.mark.slow] if number and name not in AT_ONCE else [])
        for name in WORK
        for number, user in enumerate(users())
    ],
)
def test_what_the_system_has_works_with_an_empty_home(name: str, user: str) -> None:
    program, _, expected = WORK[name]
    if has(program) is None:
        pytest.skip(f"needs {program}")
    done = as_user(user, "test_toolchains:working", name, bubblewraps()[0])
    assert done["code"] == 0, done["text"]
    assert expected in done["text"]


async def test_they_work_without_overlays_too(tmp_path: Path) -> None:
    for name, (program, _, expected) in WORK.items():
        if has(program) is not None:
            done = await working(name, without_overlays(tmp_path))
            assert done.code == 0 and expected in done.text, (name, done.text)


async def at_home(command: str, here: Path, policy: SandboxPolicy | None = None, *path: str) -> Outcome:
    """With the home directory of whoever runs the tests."""
    return await run(command, here, policy or WorkspaceWrite(), sandbox=LocalSandbox(SandboxSettings(extra_path=path)))


def is_at_home(program: Path) -> bool:
    return program.exists() and program.resolve().is_relative_to(Path.home().resolve())


BASE_PYTHON = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")


@pytest.mark.parametrize("policy", [ReadOnly(), WorkspaceWrite()], ids=["readOnly", "workspaceWrite"])
async def test_an_environment_finds_the_python_it_was_made_with(policy: SandboxPolicy) -> None:
    with place() as base:
        here = base / "ws"
        venv.create(here / ".venv", with_pip=False, symlinks=True)
        done = await at_home(
            ".venv/bin/python -c 'import sys, json; print(sys.version_info[:3], sys.prefix)'", here, policy
        )
        assert done.text == f"{sys.version_info[:3]} {here}/.venv\n"
        assert done.notes == ()


async def test_pyenv_finds_the_version_that_it_would_find_outside() -> None:
    shims = Path.home() / ".pyenv/shims"
    if not (shims / "python").exists():
        pytest.skip("needs pyenv")
    with place() as base:
        (base / "ws").mkdir()
        done = await at_home("python --version; command -v python", base / "ws", None, str(shims))
        said = subprocess.run(
            [shims / "python", "--version"], cwd=base / "ws", capture_output=True, text=True, check=True
        )
        assert done.text == f"{said.stdout}{shims}/python\n"


async def test_uv_makes_environments_and_installs_into_them() -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.skip("needs uv")
    if has("python3") is None:
        pytest.skip("needs the system's python3")
    with place() as base:
        filled(base / "ws")
        program = Path(uv).resolve()
        settings = SandboxSettings(extra_read=(str(program),))
        command = (
            f"python3 wheel.py demo-1.0-py3-none-any.whl && {program} venv -q --python python3 .venv && "
            f"{program} pip install -q --no-index --find-links . demo && .venv/bin/python -m demo"
        )
        done = await run(command, base / "ws", sandbox=LocalSandbox(settings))
        assert (done.code, done.text) == (0, "demo is here\n")


@pytest.mark.parametrize("overlays", [True, False])
async def test_cargo_builds_with_the_toolchain_at_home(tmp_path: Path, overlays: bool) -> None:
    cargo = Path.home() / ".cargo/bin"
    if not is_at_home(cargo / "cargo") or not (Path.home() / ".rustup").is_dir():
        pytest.skip("needs cargo and rustup at home")
    with place() as base:
        filled(base / "ws")
        settings = SandboxSettings(extra_path=(str(cargo),), bubblewrap="" if overlays else without_overlays(tmp_path))
        done = await run("cargo run -q --offline", base / "ws", sandbox=LocalSandbox(settings))
        assert (done.code, done.text) == (0, "rusted\n"), done.text


async def test_go_builds_with_modules_that_were_downloaded_before() -> None:
    """The module cache at home is read; what go writes there is thrown away."""
    if has("go") is None:
        pytest.skip("needs go")
    with place() as base:
        home, here = base / "home", base / "ws"
        proxy = base / "proxy/example.org/dep/@v"
        put(proxy, "list", "v1.0.0\n")
        put(proxy, "v1.0.0.mod", "module example.org/dep\n")
        put(proxy, "v1.0.0.info", '{"Version": "v1.0.0"}')
        put(base, "dep/dep.go", 'package dep\n\nconst Word = "downloaded"\n')
        make = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n"
        make += "  z.write(sys.argv[2], 'example.org/dep@v1.0.0/dep.go')\n"
        make += "  z.writestr('example.org/dep@v1.0.0/go.mod', 'module example.org/dep\\n')\n"
        subprocess.run([sys.executable, "-c", make, proxy / "v1.0.0.zip", base / "dep/dep.go"], check=True)
        put(here, "go.mod", "module example.org/hello\n\ngo 1.18\n\nrequire example.org/dep v1.0.0\n")
        put(
            here,
            "main.go",
            'package main\n\nimport ("fmt"; "example.org/dep")\n\nfunc main() { fmt.Println(dep.Word) }\n',
        )
        environment = {
            "HOME": str(home),
            "PATH": ":".join(SYSTEM_PATH),
            "GOPROXY": f"file://{base}/proxy",
            "GONOSUMDB": "*",
            "GONOSUMCHECK": "1",
            "GOFLAGS": "-mod=mod",
        }
        home.mkdir()
        subprocess.run(["go", "mod", "download"], cwd=here, env=environment, check=True, capture_output=True)
        subprocess.run(["go", "build", "-o", "out", "."], cwd=here, env=environment, check=True, capture_output=True)
        (here / "out").unlink()
        done = await run("GOPROXY=off go build -mod=mod -o out . && ./out", here, sandbox=sandbox(home))
        subprocess.run(["chmod", "-R", "u+w", home], check=True)
        assert (done.code, done.text) == (0, "downloaded\n")


async def test_pip_with_a_read_only_cache_below_still_installs() -> None:
    if has("python3") is None:
        pytest.skip("needs the system's python3")
    with place() as base:
        filled(base / "ws")
        put(base / "home", ".cache/pip/http/a/b/c", "cached")
        (base / "home/.cache/pip").chmod(0o700)
        command = (
            "python3 -m venv env && python3 wheel.py demo-1.0-py3-none-any.whl && "
            "env/bin/pip install -q --no-index --find-links . demo && env/bin/python -m demo"
        )
        done = await run(command, base / "ws", sandbox=sandbox(base / "home"))
        assert (done.code, done.text) == (0, "demo is here\n")


async def test_a_browser_starts() -> None:
    """The largest program there is here: it reserves address space, and it wants shared memory and a home."""
    roots = [Path.home() / ".cache/ms-playwright", Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or "/nonexistent")]
    names = ("chrome", "headless_shell", "chrome-headless-shell")
    found = [path for root in roots if root.is_dir() for name in names for path in root.rglob(name) if path.is_file()]
    browser = str(found[0]) if found else has("chromium") or has("google-chrome")
    if browser is None:
        pytest.skip("needs Chromium")
    with place() as base:
        (base / "ws").mkdir()
        put(base / "ws", "page.html", "<p id=x>before</p><script>x.textContent = 6 * 7</script>")
        settings = SandboxSettings(extra_read=(str(Path(browser).parent),))
        command = f"{browser} --headless --no-sandbox --disable-gpu --dump-dom file://{base}/ws/page.html 2>/dev/null"
        done = await run(command, base / "ws", sandbox=LocalSandbox(settings))
        assert '<p id="x">42</p>' in done.text
