"""Counts what a run of `make prove` has really done: a line per test in the file that HAMES_PROOF_COUNTS names."""

import os
from pathlib import Path


def count_proof(what: str, number: int) -> None:
    if path := os.environ.get("HAMES_PROOF_COUNTS"):
        with Path(path).open("a") as file:
            file.write(f"{number} {what}\n")
