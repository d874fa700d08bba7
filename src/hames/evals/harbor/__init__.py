"""Harbor, the framework of Terminal-Bench 2: Hames as one of its agents, and our tasks as its tasks.

`agent` is imported by Harbor and needs the package `harbor` (Python 3.12); nothing else here does.
"""
