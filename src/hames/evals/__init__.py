"""Evaluations: tasks as folders, an agent that works on them, checks that decide, and a table of the results.

`hames eval` is the command. A task's own scripts (set-up and check) run in the sandbox, like the agent's commands.
"""
