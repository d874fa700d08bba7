"""What an ACP client offers: files, terminals, notices and forms."""

from hames.domain.value import Value
from hames.protocols.acp.permissions import ElicitationModes


class ClientFeatures(Value):
    """What the client said in `initialize` that it can do."""

    read_files: bool = False
    write_files: bool = False
    terminals: bool = False
    """Runs commands in terminals of its own."""
    notices: bool = False
    compaction: bool = False
    terminal_output: bool = False
    """Understands streamed output of commands in `_meta`, as Zed does."""
    terminal_login: bool = False
    elicitation: ElicitationModes = ElicitationModes()
