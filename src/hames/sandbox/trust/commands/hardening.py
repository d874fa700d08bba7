"""The environment in which git starts no hook and no monitor, fetches nothing and leaves the index alone.

It cannot switch off filters, textconv and external diffs, which go by names: `repository` asks about those.
"""

_OVERRIDES = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
}
READING: dict[str, str] = {
    "GIT_CONFIG_COUNT": str(len(_OVERRIDES)),
    **{f"GIT_CONFIG_KEY_{at}": key for at, key in enumerate(_OVERRIDES)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_OVERRIDES.values())},
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
