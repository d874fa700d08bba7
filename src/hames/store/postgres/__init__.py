"""Threads in PostgreSQL: one log for many nodes. The log is the only truth; a node is a cache of some threads.

Nothing here is imported unless somebody names a database with `--store`.
"""
