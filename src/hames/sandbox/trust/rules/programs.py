"""What is known about programs by their names: which run others, and which other names a program has."""

import filecmp
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

RUNS_NO_OTHERS = frozenset(
    "echo printf grep egrep fgrep rg cat head tail ls wc sort uniq diff cmp test [ [[ jq tee cp mv rm mkdir rmdir ln "
    "touch chmod chown chgrp cut tr paste join comm fold fmt nl od xxd hexdump strings file stat du df date cal sleep "
    "true false : seq yes basename dirname realpath readlink pwd cd pushd popd which type whereis man info apropos "
    "whatis help export set unset local declare readonly typeset shift return exit break continue wait jobs kill pkill "
    "pgrep killall ps top free uptime uname whoami id groups hostname env-vars locale tput clear reset tty stty read "
    "getopts umask ulimit history gzip gunzip bzip2 xz zstd zip unzip curl wget ping dig nslookup host ip ss netstat "
    "lsof mount umount sync truncate split csplit shuf rev tac expand column md5sum sha1sum sha256sum sha512sum base64 "
    "git apt apt-get dnf yum pacman brew apk snap pip pip3 pipdeptree conda mamba ruff mypy pyright black isort flake8 "
    "pylint tsc eslint prettier jest vitest pytest tox rustc rustup gcc g++ clang cc ld ar nm objdump cmake ninja "
    "meson javac mvn gradle go cargo npm pnpm yarn bun docker podman kubectl helm terraform gh systemctl service "
    "journalctl dpkg rpm sqlite3 psql mysql redis-cli tree".split()
)
"""Programs that do not run a command which stands among their arguments."""
_SUBCOMMANDS_THAT_RUN = frozenset("run exec x dlx compose exec-env node debug attach".split())
_HAVE_SUBCOMMANDS = frozenset("docker podman kubectl npm pnpm yarn bun cargo go nerdctl lxc".split())
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/nix/")
MAX_PROGRAM_BYTES = 64 << 20


def is_runner(name: str, words: Sequence[str]) -> bool:
    """Whether a program of the list runs a command here after all: `docker run IMAGE COMMAND`."""
    return name in _HAVE_SUBCOMMANDS and bool(_SUBCOMMANDS_THAT_RUN.intersection(words))


def other_names(program: str, places: Sequence[str]) -> Iterator[str]:
    """Where a program's links lead, and the form with a blank of git's programs (`git-push`)."""
    for path in _paths(program, places):
        real = os.path.realpath(path)
        if (name := os.path.basename(real)) != os.path.basename(program):
            yield name


def is_copy(program: str, places: Sequence[str], of: str) -> bool:
    """Whether a file that is run by its path is another program of the machine's, copied or linked."""
    if "/" not in program or (original := shutil.which(os.path.basename(of))) is None:
        return False
    for path in _paths(program, places):
        if path.startswith(_SYSTEM):
            continue
        try:
            same_size = Path(path).stat().st_size == Path(original).stat().st_size <= MAX_PROGRAM_BYTES
            if same_size and filecmp.cmp(path, original, shallow=False):
                return True
        except OSError:
            continue
    return False


def is_missing(program: str, places: Sequence[str]) -> bool:
    """Whether something is run by its path that is not there yet: something before it will make it."""
    return "/" in program and not any(True for _ in _paths(program, places))


def _paths(program: str, places: Sequence[str]) -> Iterator[str]:
    if "\0" in program:
        return
    if "/" not in program:
        if (found := shutil.which(program)) is not None:
            yield found
        return
    for place in places:
        path = os.path.normpath(os.path.join(place, os.path.expanduser(program)))
        if os.path.exists(path):
            yield path
