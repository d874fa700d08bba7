"""Why a command is asked about."""


class Doubt(Exception):
    """A reason to ask, as a sentence that completes "This is asked because …" for a person."""
