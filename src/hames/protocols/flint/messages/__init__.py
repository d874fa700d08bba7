"""Every message of flint, by one name: `from hames.protocols.flint import messages as m`."""

from hames.protocols.flint.messages.client import *  # noqa: F403
from hames.protocols.flint.messages.notifications import *  # noqa: F403
from hames.protocols.flint.messages.objects import *  # noqa: F403
from hames.protocols.flint.messages.requests import *  # noqa: F403
from hames.protocols.flint.messages.worktrees import *  # noqa: F403
