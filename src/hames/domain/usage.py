"""Token usage of model calls: input, output, thinking and cache."""

from hames.domain.value import Value


class Usage(Value):
    """`input_tokens` does not count tokens that were read from or written to a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    """Part of `output_tokens`."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            thinking_tokens=self.thinking_tokens + other.thinking_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )

    @property
    def context_tokens(self) -> int:
        """How much of the model's window the call filled."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens
