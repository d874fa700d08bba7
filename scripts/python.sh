#!/bin/sh
# Prints a Python that is new enough. A name on the PATH proves nothing (it may be a shim for a version that is not there): it is run.
for name in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3 python}; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        # The interpreter itself, so that a shim is asked only once.
        "$name" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done
echo 'Hames needs Python 3.11 or newer: install it, or name it with PYTHON=/path/to/python make ...' >&2
exit 1
