"""How much of a command line is looked at. Beyond these a person is asked."""

MAX_BYTES = 16 * 1024
MAX_COMMANDS = 20
MAX_PLACES = 16
"""Directories the shell may be in at the same point of a line."""
