"""Set-up: everything Hames needs, pinned by hash, in `.venv` of this checkout and nowhere else.

uv does the work. Where it cannot (it knows nothing of pip's own settings, and a
machine may reach its index only through those), pip does the same from the same locks.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
PLACE = VENV / "hames.place"

DEBIAN_PACKAGE = f"python3.{sys.version_info.minor}-venv"

LOCKS = {
    "run": "requirements.lock",
    "dev": "requirements-dev.lock",
    "docs": "requirements-docs.lock",
}


class Failed(Exception):
    """A step did not work; the text is what it said."""


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "dev"
    if what not in LOCKS:
        raise SystemExit(f"no set-up {what!r}: choose one of {', '.join(LOCKS)}")
    stamp = VENV / f"hames-{what}.stamp"
    wanted = fingerprint(what)
    if PYTHON.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"setting up .venv ({what})", file=sys.stderr)
    try:
        if not usable():
            make_venv()
        install(what)
    except Failed as failure:
        raise SystemExit(f"set-up failed: {failure}") from None
    stamp.write_text(wanted, encoding="utf-8")


def fingerprint(what: str) -> str:
    """Changes with whatever would make an installed `.venv` wrong, the place of the checkout included."""
    files = ("requirements-uv.lock", LOCKS[what], "pyproject.toml", "scripts/setup.py")
    return hashlib.sha256(b"\0".join([bytes(ROOT), *((ROOT / name).read_bytes() for name in files)])).hexdigest()


def usable() -> bool:
    """There is an environment, it runs, is new enough, and was made for this place."""
    if not PYTHON.exists() or (PLACE.exists() and PLACE.read_bytes() != bytes(ROOT)):
        return False
    check = [str(PYTHON), "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    return subprocess.run(check, capture_output=True, check=False).returncode == 0


def make_venv() -> None:
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        run(sys.executable, "-m", "venv", str(VENV))
    except Failed:
        # Debian's Python comes without ensurepip: its package brings it, or the system's pip stands in.
        if os.geteuid() == 0 and shutil.which("apt-get"):
            run("apt-get", "-qq", "update")
            run("apt-get", "-qq", "-y", "--no-install-recommends", "install", DEBIAN_PACKAGE)
            run(sys.executable, "-m", "venv", "--clear", str(VENV))
        else:
            run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV))
    PLACE.write_bytes(bytes(ROOT))


def pip() -> list[str]:
    """The command that installs into `.venv`: its own pip, or the one of the Python that runs this."""
    own, ours = [str(PYTHON), "-m", "pip"], [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    for command in (own, ours):
        if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0:
            return command
    try:
        run(str(PYTHON), "-m", "ensurepip")
    except Failed:
        raise Failed(f"this Python has no pip; on Debian, as root: apt-get install {DEBIAN_PACKAGE}") from None
    return own


def install(what: str) -> None:
    lock, project = str(ROOT / LOCKS[what]), ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    steps = [["--require-hashes", "--requirement", lock]]
    if what != "docs":
        steps.append(project)
    if uv := find_uv():
        try:
            for step in steps:
                run(*uv, *step)
            return
        except Failed as failure:
            print(f"uv could not install, trying pip: {str(failure).splitlines()[-1]}", file=sys.stderr)
    for step in steps:
        run(*pip(), "install", "--quiet", *step)


def find_uv() -> list[str]:
    """The command that installs with uv, or nothing where pip has to do it."""
    if not UV.exists():
        command = pip()
        settings = subprocess.run([*command, "config", "list"], capture_output=True, text=True, check=False).stdout
        if any(line.split("=")[0].endswith((".index-url", ".no-index")) for line in settings.splitlines()):
            return []  # the machine has an index of its own, and only pip knows how to reach it
        try:
            run(*command, "install", "--quiet", "--require-hashes", "--requirement", str(ROOT / "requirements-uv.lock"))
        except Failed:
            return []
    return [str(UV), "pip", "install", "--quiet", "--python", str(PYTHON)]


def run(*command: str) -> None:
    """Quiet when it works; when it does not, what it said is the error."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}\n{done.stdout.strip()}")


if __name__ == "__main__":
    main()
