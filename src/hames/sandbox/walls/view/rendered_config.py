"""Settings of the user's tools, written anew for the sandbox: what is known to be harmless, and nothing else.

The user's own files are never shown, because passwords and programs to run are kept in the same files. An address of
a registry keeps its host and loses its password: without the address, a tool would ask the public registry for packages
of the same name.
"""

import configparser
import json
import os
import re
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from hames.executables import find_program
from hames.sandbox.processes.environment import SYSTEM_PATH
from hames.sandbox.walls.mounts import Mount

_MOST_BYTES = 262_144
_GIT_SECONDS = 5.0
_INCLUDED_SECONDS = 60
_KNOWN_HOSTS = ".ssh/known_hosts"

_GIT_KEYS = frozenset(
    """
    author.email author.name branch.autosetupmerge branch.autosetuprebase branch.sort commit.cleanup commit.verbose
    committer.email committer.name core.abbrev core.autocrlf core.commentchar core.eol core.filemode
    core.ignorecase core.precomposeunicode core.quotepath core.safecrlf core.whitespace diff.algorithm
    diff.colormoved diff.context diff.mnemonicprefix diff.noprefix diff.renames diff.submodule fetch.parallel
    fetch.prune fetch.prunetags init.defaultbranch init.defaultobjectformat init.defaultrefformat log.date
    log.decorate log.follow merge.conflictstyle merge.ff pull.ff pull.rebase push.autosetupremote push.default
    push.followtags rebase.autosquash rebase.autostash rebase.updaterefs rerere.enabled safe.directory status.short
    status.showuntrackedfiles submodule.recurse tag.sort user.email user.name user.useconfigonly
    """.split()
)
_ALIAS = re.compile(r"alias\.[A-Za-z][A-Za-z0-9-]*")
# An alias that begins with "!" is a program; one with -c, an address or a header may hold a password.
_ALIAS_VALUE = re.compile(r"(?!.*(?:(?:^|\s)-c|://|=.*:|header|token|password))[A-Za-z][^!\n\r\0]*", re.IGNORECASE)

_NPM_KEYS = frozenset(
    """
    audit engine-strict fund ignore-scripts legacy-peer-deps lockfile-version loglevel package-lock prefer-offline
    registry replace-registry-host save save-exact save-prefix strict-peer-deps strict-ssl update-notifier
    """.split()
)
_NPM_SCOPE = re.compile(r"@[a-z0-9][a-z0-9._-]*:registry")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9 ._^~*<>=|-]{0,40}")

_PIP_KEYS = frozenset(
    """
    break-system-packages disable-pip-version-check extra-index-url find-links index-url no-binary no-index
    only-binary pre prefer-binary require-virtualenv retries timeout trusted-host upgrade-strategy
    """.split()
)

# `True` keeps a plain value, "address" an address without its password. `*` is any name.
_UV: Mapping[str, Any] = {
    **dict.fromkeys(("index-url", "extra-index-url", "find-links"), "address"),
    **dict.fromkeys("index-strategy no-index offline native-tls prerelease resolution".split(), True),
    **dict.fromkeys(("python-preference", "python-downloads", "exclude-newer"), True),
    "index": {"name": True, "url": "address", "default": True, "explicit": True},
    "pip": {"index-url": "address", "extra-index-url": "address", "no-index": True, "index-strategy": True},
}
_CARGO: Mapping[str, Any] = {
    "source": {"*": {"registry": "address", "replace-with": True}},
    "registries": {"*": {"index": "address"}},
    "registry": {"default": True},
    "net": {"offline": True, "retry": True, "git-fetch-with-cli": True},
    "build": {"jobs": True, "target": True, "incremental": True},
    "profile": {"*": {"debug": True, "opt-level": True, "lto": True, "incremental": True, "strip": True}},
}


def rendered_mounts(home: str) -> list[Mount]:
    """The files, ready to be put into a private home directory."""
    files = {
        ".gitconfig": git_settings(home),
        ".config/git/ignore": _git_ignore(home),
        ".npmrc": _render(home, ".npmrc", _npm),
        ".config/pip/pip.conf": _render(home, ".pip/pip.conf", _pip) + _render(home, ".config/pip/pip.conf", _pip),
        ".config/uv/uv.toml": _render(home, ".config/uv/uv.toml", _uv),
        ".cargo/config.toml": _render(home, ".cargo/config.toml", _cargo) or _render(home, ".cargo/config", _cargo),
        ".config/pnpm/rc": b"package-import-method=copy\n",
        _KNOWN_HOSTS: _render(home, _KNOWN_HOSTS, _known_hosts),
    }
    return [Mount(path=f"{home}/{name}", how="file", content=text) for name, text in files.items() if text]


def git_settings(home: str) -> bytes:
    """The user's own settings of git, rendered. The file in the home directory comes last, and so it wins."""
    return _render(home, ".config/git/config", _git) + _render(home, ".gitconfig", _git)


Render = Callable[[str, str], str]


def _render(home: str, name: str, render: Render) -> bytes:
    """What a file is rendered to, remembered until it changes. Nothing for a file that cannot be read or understood."""
    path = name if name.startswith("/") else f"{home}/{name}"
    try:
        about = os.stat(path)
    except OSError:
        return b""
    # A file of git's may include others, which change alone.
    moment = int(time.monotonic() // _INCLUDED_SECONDS) if render in (_git, _excludes_file) else 0
    return _render_cached(
        home, path, render, (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns, moment)
    )


@lru_cache(maxsize=64)
def _render_cached(home: str, path: str, render: Render, _about: tuple[int, ...]) -> bytes:
    try:
        return render(home, path).encode()
    except (OSError, ValueError, subprocess.SubprocessError, configparser.Error):
        return b""


def _ignore_patterns(_home: str, path: str) -> str:
    return _text(path)


def _text(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")


def _git(home: str, path: str) -> str:
    """Git reads its own files, with what they include, and runs nothing for it."""
    lines: list[str] = []
    for key, value in _git_entries(home, path):
        section, _, name = key.rpartition(".")
        keep = key.lower() in _GIT_KEYS or (_ALIAS.fullmatch(key) and _ALIAS_VALUE.fullmatch(value))
        if keep and "." not in section and not re.search(r"[\0\r\n]", value):
            quoted = value.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'[{section}]\n\t{name} = "{quoted}"\n')
    return "".join(lines)


def _git_entries(home: str, path: str) -> Iterator[tuple[str, str]]:
    git = find_program("git", path=":".join(SYSTEM_PATH))
    if not git:
        return
    done = subprocess.run(
        [git, "config", "--file", path, "--includes", "--null", "--list"],
        cwd="/",
        env={
            "PATH": ":".join(SYSTEM_PATH),
            "HOME": home,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CEILING_DIRECTORIES": "/",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_GIT_SECONDS,
        check=False,
    )
    for entry in done.stdout.decode("utf-8", "replace").split("\0"):
        key, told, value = entry.partition("\n")
        if key:
            yield key, value if told else "true"


def _git_ignore(home: str) -> bytes:
    """What git ignores everywhere, at the place where git looks without being told."""
    for settings in (".gitconfig", ".config/git/config"):
        if named := _render(home, settings, _excludes_file).decode():
            place = named.removeprefix("~/")
            return _render(home, place, _ignore_patterns) if place.startswith("/") or place != named else b""
    return _render(home, ".config/git/ignore", _ignore_patterns)


def _excludes_file(home: str, path: str) -> str:
    named = [value for key, value in _git_entries(home, path) if key.lower() == "core.excludesfile"]
    return named[-1] if named else ""


def _npm(_home: str, path: str) -> str:
    lines: list[str] = []
    for line in _text(path).splitlines():
        key, told, value = (part.strip() for part in line.partition("="))
        if not told:
            continue
        value = value.strip("\"'")
        if key == "registry" or _NPM_SCOPE.fullmatch(key):
            lines += [f"{key}={address}\n"] if (address := without_password(value)) else []
        elif key in _NPM_KEYS and _PLAIN_VALUE.fullmatch(value):
            lines.append(f"{key}={value}\n")
    return "".join(lines)


def _pip(_home: str, path: str) -> str:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(_text(path))
    lines: list[str] = []
    for section in parser.sections():
        if not re.fullmatch(r"[a-z]{1,20}", section):
            continue
        kept: list[str] = []
        for key, value in parser.items(section):
            name = key.replace("_", "-")
            words = [word for word in value.split() if word]
            if name in ("index-url", "extra-index-url", "find-links"):
                words = [without_password(word) for word in words]
            elif not all(_PLAIN_VALUE.fullmatch(word) for word in words):
                continue
            if name in _PIP_KEYS and words and all(words):
                kept.append(f"{name} = " + "\n    ".join(words) + "\n")
        if kept:
            lines += [f"[{section}]\n", *kept]
    return "".join(lines)


def _uv(_home: str, path: str) -> str:
    return _toml(_allowed_members(tomllib.loads(_text(path)), _UV))


def _cargo(_home: str, path: str) -> str:
    return _toml(_allowed_members(tomllib.loads(_text(path)), _CARGO))


def _known_hosts(_home: str, path: str) -> str:
    """Lines of hosts and their public keys; comments are left out."""
    lines = [line.split() for line in _text(path).splitlines()]
    return "".join(" ".join(words[: 4 if words[0][0] == "@" else 3]) + "\n" for words in lines if _is_host(words))


def _is_host(words: list[str]) -> bool:
    fields = words[1:] if words and words[0] in ("@cert-authority", "@revoked") else words
    kinds = ("ssh-", "ecdsa-", "sk-")
    return len(fields) >= 3 and not fields[0].startswith("#") and fields[1].startswith(kinds)


def without_password(address: str) -> str:
    """An address of a registry without user, password, query and whatever looks like a key in its path.

    >>> without_password("https://me:secret@example.org/simple?token=x")
    'https://example.org/simple'
    >>> without_password("sparse+https://example.org/index/"), without_password("git@example.org:a/b")
    ('sparse+https://example.org/index/', '')
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https", "sparse+http", "sparse+https") or not re.fullmatch(r"[\w.:-]+", host):
        return ""
    shown = f"[{host}]" if ":" in host else host
    path = "/".join("removed" if _looks_like_a_key(part) else part for part in parts.path.split("/"))
    return urlunsplit((parts.scheme, shown + port, path, "", "")) if re.fullmatch(r"[\w./~%+@-]*", path) else ""


def _looks_like_a_key(part: str) -> bool:
    return len(part) >= 20 and any(letter.isdigit() for letter in part) and any(letter.isalpha() for letter in part)


def _allowed_members(table: Mapping[str, Any], rules: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in table.items():
        rule = rules.get(key, rules.get("*"))
        if not re.fullmatch(r"[\w-]{1,64}", key) or rule is None:
            continue
        values = value if isinstance(value, list) else [value]
        found = [good for one in values if (good := _allowed_value(one, rule)) is not None]
        if found:
            kept[key] = found if isinstance(value, list) else found[0]
    return kept


def _allowed_value(value: Any, rule: Any) -> Any:
    if isinstance(rule, Mapping):
        return (_allowed_members(value, rule) or None) if isinstance(value, dict) else None
    if rule == "address":
        return (without_password(value) or None) if isinstance(value, str) else None
    if isinstance(value, bool | int):
        return value
    return value if isinstance(value, str) and _PLAIN_VALUE.fullmatch(value) else None


def _toml(table: Mapping[str, Any], above: str = "") -> str:
    """As TOML: plain values first, then tables."""
    plain = {key: value for key, value in table.items() if not _is_table(value)}
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += [f"[{above}{key}]\n", _toml(value, f"{above}{key}.")]
        elif _is_table(value):
            lines += [part for one in value for part in (f"[[{above}{key}]]\n", _toml(one, f"{above}{key}."))]
    return "".join(lines)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))
