"""Calls that only ask a program for its version or its usage.

Left out on purpose: programs that obey the repository before they answer. `yarn` starts the release that `.yarnrc.yml`
names, `mvn` reads `.mvn/jvm.config`, `pytest` loads `conftest.py`, `dotnet` follows `global.json`, and `git --help`
opens a manual page.
"""

from hames.sandbox.trust.commands.known_programs import PROGRAMS

_QUESTIONS: dict[str, str] = {
    "--version --help": "awk date find sed cmake curl deno gcc jq wget " + " ".join(PROGRAMS),
    "--version": "aws bash black clang clang++ clang-format conda docker eslint g++ gh ghc gpg gzip julia meson mypy "
    "mysql ninja nix nvim poetry prettier psql R redis-cli rsync rustfmt rustup sqlite3 swift tar vim",
    "--version -V --help": "pip pip3 python python2 python3 rg ruff uv",
    "--version -v": "bun gem npm perl php pnpm ruby",
    "--version -v --help": "make node tsc",
    "--version -V -vV --help": "cargo rustc",
    "--version -version": "ffmpeg java javac",
    "version": "go openssl zig",
    "--version version": "git",
    "-v": "lua",
    "-V": "ssh tmux",
}
_QUESTIONS_OF = {name: words.split() for words, names in _QUESTIONS.items() for name in names.split()}
_CHOOSERS: dict[str, tuple[str, ...]] = dict.fromkeys(
    "cargo rustc rustfmt".split(), ("rust-toolchain", "rust-toolchain.toml")
)


def asks_for_version(name: str, words: list[str]) -> bool:
    return len(words) == 1 and words[0] in _QUESTIONS_OF.get(name, ())


def choosers(name: str) -> tuple[str, ...]:
    """Files in the working directory or above it that could make the name mean a program of the repository's choice."""
    return _CHOOSERS.get(name, ())
