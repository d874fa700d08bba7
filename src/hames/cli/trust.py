"""Allow a project's own configuration: hames.toml and .mcp.json of that directory, as they are now.

  hames trust              show these files, and use them from now on
  hames trust --show       only show them
  hames trust --revoke     ignore them again

This applies to this directory and the current contents of the files. Run it again after they change, or for a copy.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from hames.config.paths import user_state
from hames.config.project import ProjectTrust, identity, read_obeyed
from hames.domain.display import visible
from hames.domain.errors import Misconfigured


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("directory", nargs="?", default=".", help="the project (default: here)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true", help="show the files, and whether they are used")
    what.add_argument("--revoke", action="store_true", help="ignore these files again")


def run(args: Namespace) -> int:
    directory = Path(args.directory)
    if not directory.is_dir():
        raise Misconfigured(f"no directory {str(directory)!r}")
    trust = ProjectTrust(Path(user_state(os.environ)))
    if args.revoke:
        print("no longer trusted" if trust.revoke(directory) else "was not trusted")
        return 0
    if identity(directory).digest == "":
        print("nothing to trust here: there is no hames.toml and no .mcp.json")
        return 0
    waiting = trust.asks_for(directory)
    for name in ("hames.toml", ".mcp.json"):
        if text := read_obeyed(directory, name).decode(errors="replace"):
            # Judged, not just read: what a terminal would swallow could be the part that is obeyed.
            print(f"--- {name}", *map(visible, text.rstrip("\n").split("\n")), sep="\n")
    if args.show:
        print(f"--- {'not trusted' if waiting else 'trusted'}")
        return 1 if waiting else 0
    trust.trust(directory)
    print(f"--- trusted: {visible(str(directory.resolve()))}")
    return 0
