"""A key and a tool for harnesses of the library."""

from typing import Annotated

from hames import Config, tool

KEY = Config(api_key="test")


@tool
def add(a: int, b: Annotated[int, "what to add"] = 1) -> str:
    """Adds two numbers."""
    return str(a + b)
