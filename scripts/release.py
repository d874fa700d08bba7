"""Builds a release, checks it, and writes its notes. Nothing is uploaded.

    make release            into dist/: wheel, sdist, NOTES.md, SHA256SUMS

Refuses a checkout with uncommitted changes, and a version that CHANGELOG.md has no section for. The notes are that
section. Both files are installed into fresh environments and used before anything is called done.
"""

import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
UV = ROOT / ".venv" / "bin" / "uv"


def main() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if dirty := run("git", "status", "--porcelain"):
        raise SystemExit(f"commit or stash first:\n{dirty}")
    notes = section((ROOT / "CHANGELOG.md").read_text(), version)
    for old in DIST.glob("hames-*"):
        old.unlink()
    run(str(UV), "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(DIST))
    run(sys.executable, "-m", "pytest", "tests/integration/test_package.py", "-q")
    built = sorted(DIST.glob("hames-*"))
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built)
    (DIST / "SHA256SUMS").write_text(sums)
    (DIST / "NOTES.md").write_text(f"# Hames {version}\n\n{notes}\n")
    print(f"built and tried: {', '.join(path.name for path in built)}; the notes are in dist/NOTES.md")


def section(changelog: str, version: str) -> str:
    """What the changelog says of a version.

    >>> section("## [Unreleased]\\n\\n- a\\n\\n## [1.0]\\n\\n- b\\n", "1.0")
    '- b'
    """
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section '## [{version}]': rename [Unreleased] and try again")
    return found[1].strip()


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
