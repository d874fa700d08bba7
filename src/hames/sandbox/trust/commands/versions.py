"""Calls that only ask a program for its version or its usage.

Left out on purpose: programs that obey the repository before they answer. `yarn` starts the release that `.yarnrc.yml`
names, `mvn` reads `.mvn/jvm.config`, `pytest` loads `conftest.py`, `dotnet` follows `global.json`, and `git --help`
opens a manual page.
"""

from hames.sandbox.trust.commands.programs import PROGRAMS

_ANSWERS: dict[str, str] = {
    **dict.fromkeys(PROGRAMS, "--version --help"),
    **dict.fromkeys(("awk", "date", "find", "sed"), "--version --help"),
    **dict.fromkeys(
        ("black", "clang", "clang++", "docker", "eslint", "g++", "gh", "meson", "mypy", "ninja"), "--version"
    ),
    **dict.fromkeys(
        ("aws", "clang-format", "conda", "ghc", "gpg", "gzip", "julia", "mysql", "nvim", "psql"), "--version"
    ),
    **dict.fromkeys(("redis-cli", "rsync", "swift", "tar", "vim", "R"), "--version"),
    **dict.fromkeys(("bash", "nix", "poetry", "prettier", "rustfmt", "rustup", "sqlite3"), "--version"),
    **dict.fromkeys(("cmake", "curl", "deno", "gcc", "jq", "wget"), "--version --help"),
    **dict.fromkeys(("pip", "pip3", "python", "python2", "python3", "rg", "ruff", "uv"), "--version -V --help"),
    **dict.fromkeys(("bun", "gem", "npm", "perl", "php", "pnpm", "ruby"), "--version -v"),
    **dict.fromkeys(("make", "node", "tsc"), "--version -v --help"),
    **dict.fromkeys(("cargo", "rustc"), "--version -V -vV --help"),
    **dict.fromkeys(("ffmpeg", "java", "javac"), "--version -version"),
    **dict.fromkeys(("go", "zig"), "version"),
    "git": "--version version",
    "lua": "-v",
    "openssl": "version",
    "ssh": "-V",
    "tmux": "-V",
}
CHOOSERS = ("rust-toolchain", "rust-toolchain.toml")
"""Files of a repository that say which program answers."""
_CHOSEN = frozenset(("cargo", "rustc", "rustfmt"))


def asks_for_version(name: str, words: list[str]) -> bool:
    return len(words) == 1 and words[0] in _ANSWERS.get(name, "").split()


def is_chosen_by_repository(name: str) -> bool:
    """Whether `CHOOSERS` in the working directory or above it could make the name mean a program of theirs."""
    return name in _CHOSEN
