"""Which files the agent may not see because they are ours, and which it may read outside the workspace."""

import os
from pathlib import Path

from hames.config.credentials import Credentials
from hames.config.load import Options
from hames.config.paths import DATA, user_config
from hames.private_files import private_directory


def hidden_paths(options: Options) -> tuple[str, ...]:
    """What is ours and no command may see, wherever it has been moved to: keys, tokens, logs, threads.

    The sandbox itself hides the workspace's own `.harness`.
    """
    config = Path(user_config(options.environment))
    # A directory of our own holds nothing else; one that was named may.
    ours = (
        [config, Credentials.of_user(options.environment).file]
        if "HAMES_CONFIG" in options.environment
        else [config.parent]
    )
    data = [] if options.data_dir == options.cwd / DATA else [options.data_dir]
    log = [Path(options.log_file).absolute()] if options.log_file else []
    if options.state_dir.is_relative_to(options.cwd):
        # A directory that does not exist could be made by a command, and would be believed.
        private_directory(options.state_dir)
    return tuple(str(path.absolute()) for path in (*ours, options.state_dir, *data, *log))


def readable_directories(options: Options) -> tuple[str, ...]:
    """What file tools may read outside the workspace: what commands see anyway, unless something of ours is in it."""
    home = options.environment.get("HOME") or str(Path.home())
    found = [Path(home, path[2:]) if path.startswith("~/") else Path(path) for path in ("/usr", *options.extra_read)]
    hidden = [Path(os.path.realpath(path)) for path in hidden_paths(options)]
    resolved = [Path(os.path.realpath(path)) for path in found]
    return tuple(
        str(path)
        for path in resolved
        if path.is_dir() and not any(ours.is_relative_to(path) or path.is_relative_to(ours) for ours in hidden)
    )
