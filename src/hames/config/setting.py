"""One value of the configuration, and where it comes from."""

from hames.domain.json import Json
from hames.domain.value import Value


class Setting(Value):
    """A value and its origin."""

    value: Json
    origin: str
