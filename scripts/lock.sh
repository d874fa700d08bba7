#!/bin/sh
# Writes the locks anew: every version pinned, every file by hash, no host named.
set -eu
cd "$(dirname "$0")/.."

lock() {
    out=$1
    shift
    .venv/bin/uv --no-config pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-annotate --no-header "$@" --output-file "$out"
}

echo 'uv' | lock requirements-uv.lock -
lock requirements.lock pyproject.toml --extra bins --group build
lock requirements-dev.lock pyproject.toml --extra bins --group build --group dev --constraints requirements.lock
lock requirements-docs.lock --group docs

# The prices of models are those that the locked version of genai-prices knows.
.venv/bin/uv pip install --quiet --python .venv/bin/python --requirement requirements-dev.lock
.venv/bin/python scripts/price_table.py

if grep -n '://' requirements*.lock; then
    echo 'a lock names a host' >&2
    exit 1
fi
