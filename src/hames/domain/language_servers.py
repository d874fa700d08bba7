"""Which language servers may check the files that the agent edits."""

from typing import Literal

from hames.domain.json import Json
from hames.domain.value import Value


class LanguageServerSettings(Value):
    """A language server as the user's configuration file names it.

    The sentences under the fields are their lines in docs/configuration.md.
    """

    command: tuple[str, ...] = ()
    """The program to start and its arguments: a path, or a name in the project's `.venv/bin` or `node_modules/.bin`, or
    on the PATH. Not needed for servers that Hames knows."""
    extensions: tuple[str, ...] = ()
    """The file name extensions that it checks, such as `"py"`. Not needed for servers that Hames knows."""
    settings: dict[str, Json] = {}
    """Settings of the server itself, as an editor would send them."""
    enabled: bool = True
    """`false`: it is never started."""


class LanguageServerOptions(Value):
    """`auto`: where commands run without a question. `on`: always. `off`: never. A named server counts as `on`."""

    mode: Literal["auto", "on", "off"] = "auto"
    servers: dict[str, LanguageServerSettings] = {}
    trusted: str = ""
    """The directory of a project that the user has trusted: there it is as with `on`."""
