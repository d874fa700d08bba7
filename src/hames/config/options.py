"""The effective configuration: defaults < user < trusted project < environment < flags, each value with its origin.

Keys and endpoints come from the process environment or the user's own file, never from a workspace.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from hames.config.mcp import MCP_JSON, McpServer, read_mcp_json
from hames.config.paths import PROJECT_CONFIG, data_directory, user_config, user_state
from hames.config.project import ProjectTrust, ignored, read_obeyed
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.policy import (
    ApprovalPolicy,
    DangerFullAccess,
    ExternalSandbox,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from hames.domain.value import Value

SANDBOXES: Final[dict[str, SandboxPolicy]] = {
    "readOnly": ReadOnly(),
    "workspaceWrite": WorkspaceWrite(),
    "dangerFullAccess": DangerFullAccess(),
    "externalSandbox": ExternalSandbox(),
}

SECRET = ("api_key", "token", "password", "secret")


class Setting(Value):
    """One value and where it came from."""

    value: Json
    origin: str


class Options(Value):
    """What the rest of the program is told.

    The sentence under a field that has a key in the configuration files is its line in docs/configuration.md.
    """

    cwd: Path
    data_dir: Path
    state_dir: Path
    notes_dir: Path
    """Where the user's own project notes are: beside the user's configuration file."""
    environment: dict[str, str]
    """Provider keys and endpoints, by the names the providers' own tools use."""
    model: str = ""
    """The model of new threads: `provider/model`, or a bare model name. `hames models` lists them and the default."""
    approval_policy: ApprovalPolicy = "unlessTrusted"
    """When you are asked first: `never`, for risky actions (`unlessTrusted`), or every time (`always`)."""
    sandbox: SandboxPolicy = WorkspaceWrite()
    """What commands may touch: the name of a policy, or a table with `type` and its settings."""
    allow_degraded: bool = False
    """Where bubblewrap is missing, run commands with Landlock alone, which is weaker."""
    instructions: str = ""
    """Text that is added to the instructions of the model."""
    max_steps: int = 200
    """How many model calls a turn may make."""
    log_file: str = ""
    """Write the log there instead of to stderr."""
    log_level: str = "warning"
    """How much is logged: `debug`, `info`, `warning` or `error`."""
    extra_path: tuple[str, ...] = ()
    """Directories added to the fixed PATH of commands."""
    extra_read: tuple[str, ...] = ()
    """Files and directories that commands in the sandbox may read, beside the system's and the usual tools."""
    extra_cache: tuple[str, ...] = ()
    """Directories that they may read, and change in a private copy that is thrown away."""
    max_memory_mb: int | None = None
    """Of one command with everything it starts. None: three quarters of the machine's. 0: no limit."""
    max_file_mb: int = 16_384
    """Of one file that a command writes. 0: no limit."""
    max_processes: int = 4096
    """Of one command. 0: no limit."""
    search_command: tuple[str, ...] = ()
    """A program and its arguments that searches the web, for models whose service does not. `{query}` is replaced."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers whose tools the model is offered, by name."""
    settings: dict[str, Setting] = {}
    """Every effective value with its origin, for people."""
    untrusted: tuple[str, ...] = ()
    """Files of the workspace that are ignored because it is not trusted."""
    warnings: tuple[str, ...] = ()
    """What of the workspace's configuration is ignored, and why: a sentence each."""


NAMES: Final = {
    "model": str,
    "approval_policy": str,
    "sandbox": (str, dict),
    "allow_degraded": bool,
    "instructions": str,
    "max_steps": int,
    "log_file": str,
    "log_level": str,
    "extra_path": list,
    "extra_read": list,
    "extra_cache": list,
    "max_memory_mb": (int, str),
    "max_file_mb": int,
    "max_processes": int,
    "search_command": list,
    "mcp_servers": dict,
}
OF_PROJECTS: Final = frozenset({"model", "approval_policy", "sandbox", "instructions", "max_steps", "mcp_servers"})
BY_ENVIRONMENT: Final = {
    "HAMES_MODEL": "model",
    "HAMES_APPROVAL_POLICY": "approval_policy",
    "HAMES_SANDBOX": "sandbox",
    "HAMES_LOG_FILE": "log_file",
    "HAMES_LOG_LEVEL": "log_level",
}
DEFAULTS: Final[dict[str, Json]] = {
    "model": "",
    "approval_policy": "unlessTrusted",
    "sandbox": "workspaceWrite",
    "allow_degraded": False,
    "instructions": "",
    "max_steps": 200,
    "log_file": "",
    "log_level": "warning",
    "extra_path": [],
    "extra_read": [],
    "extra_cache": [],
    "max_memory_mb": "auto",
    "max_file_mb": 16_384,
    "max_processes": 4096,
    "search_command": [],
    "mcp_servers": {},
}


def load(flags: Mapping[str, Json], environment: Mapping[str, str]) -> Options:
    """Raises `Misconfigured` with one sentence; nothing is written."""
    cwd = _directory(flags.get("cwd"))
    state = Path(user_state(environment))
    settings = {name: Setting(value=value, origin="default") for name, value in DEFAULTS.items()}
    path = Path(user_config(environment))
    user = _toml(_bytes(path), str(path))
    providers = _table(user.pop("providers", {}), "providers", str(path))
    _take(settings, user, str(path))
    trust = ProjectTrust(state)
    if trust.trusts(cwd):
        project = _toml(read_obeyed(cwd, PROJECT_CONFIG), PROJECT_CONFIG)
        if private := {name for name in project if _is_private(name)}:
            raise Misconfigured(
                f"{PROJECT_CONFIG} may not set {', '.join(sorted(private))}: that belongs in the user's own file"
            )
        _take(settings, project, PROJECT_CONFIG, known=OF_PROJECTS)
        shared = read_mcp_json(read_obeyed(cwd, MCP_JSON))
        if shared:
            _take(settings, {"mcp_servers": msgspec.to_builtins(shared)}, MCP_JSON)
    untrusted = tuple(trust.asks_for(cwd))
    warnings = ignored(cwd, untrusted, changed=trust.trusted_before(cwd))
    _take(settings, _by_environment(environment), "environment")
    _take(settings, {name: flags[name] for name in NAMES if flags.get(name) is not None}, "flag")
    return Options(
        cwd=cwd,
        data_dir=Path(data_directory(str(cwd), flags.get("data_dir"))),
        state_dir=state,
        notes_dir=path.parent,
        environment={**_saved_keys(environment), **_provider_environment(providers, environment)},
        model=settings["model"].value,
        approval_policy=_approval_policy(settings["approval_policy"]),
        sandbox=sandbox_policy(settings["sandbox"]),
        allow_degraded=settings["allow_degraded"].value,
        instructions=settings["instructions"].value,
        max_steps=settings["max_steps"].value,
        log_file=settings["log_file"].value,
        log_level=_log_level(settings["log_level"]),
        extra_path=tuple(settings["extra_path"].value),
        extra_read=_shown("extra_read", settings["extra_read"], environment),
        extra_cache=_shown("extra_cache", settings["extra_cache"], environment),
        max_memory_mb=None if settings["max_memory_mb"].value == "auto" else _limit("max_memory_mb", settings),
        max_file_mb=_limit("max_file_mb", settings),
        max_processes=_limit("max_processes", settings),
        search_command=_search_command(settings["search_command"]),
        mcp_servers=_mcp_servers(settings["mcp_servers"]),
        settings=settings,
        untrusted=untrusted,
        warnings=tuple(warnings),
    )


def sandbox_policy(setting: Setting) -> SandboxPolicy:
    """By name, or as a table with `type`."""
    value = setting.value
    if isinstance(value, str) and value in SANDBOXES:
        return SANDBOXES[value]
    try:
        return msgspec.convert(value, SandboxPolicy, strict=True)
    except msgspec.ValidationError:
        names = ", ".join(SANDBOXES)
        raise Misconfigured(f"sandbox is {value!r} ({setting.origin}); it must be one of {names}") from None


def _directory(named: Json) -> Path:
    cwd = Path(named) if named else Path.cwd()
    try:
        found = cwd.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise Misconfigured(f"no directory {str(cwd)!r}; name one that exists with --cwd") from None
    if not found.is_dir():
        raise Misconfigured(f"{str(cwd)!r} is not a directory; name one with --cwd")
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as failure:
        raise Misconfigured(f"cannot read {str(path)!r}: {failure.strerror}") from None


def _toml(data: bytes, origin: str) -> dict[str, Json]:
    if not data:
        return {}
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise Misconfigured(f"{origin} is not valid TOML: {problem}") from None


def _table(value: Any, name: str, origin: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise Misconfigured(f"{name} in {origin} must be a table")
    return value


def _is_private(name: str) -> bool:
    """Nothing a repository may have a say in, however it is spelled."""
    known = name in NAMES or name == "providers" or any(word in name for word in SECRET)
    return known and name not in OF_PROJECTS


def _take(
    settings: dict[str, Setting],
    values: Mapping[str, Json],
    origin: str,
    *,
    known: Collection[str] = (*NAMES, "providers"),
) -> None:
    for name, value in values.items():
        kind = NAMES.get(name)
        if kind is None:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise Misconfigured(
                f"{origin} sets {name!r}, which is not a known key.{meant} The keys are: {', '.join(sorted(known))}"
            )
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise Misconfigured(f"{name} is {value!r} ({origin}), which is the wrong type")
        merged: Json = value
        if isinstance(value, dict) and name == "mcp_servers":
            _check_servers(value, origin)
            merged = {**settings[name].value, **value}
        settings[name] = Setting(value=merged, origin=origin)


def _check_servers(servers: dict[str, Json], origin: str) -> None:
    """A key nobody reads is a mistake, and is said to be one."""
    known = [field.name for field in msgspec.structs.fields(McpServer)]
    for server, table in servers.items():
        unknown = [key for key in table if key not in known] if isinstance(table, dict) else []
        if unknown:
            raise Misconfigured(
                f"{origin} sets {unknown[0]!r} in mcp_servers.{server}, which is not a known key."
                f" The keys are: {', '.join(sorted(known))}"
            )


def _by_environment(environment: Mapping[str, str]) -> dict[str, Json]:
    return {name: environment[variable] for variable, name in BY_ENVIRONMENT.items() if environment.get(variable)}


def _provider_environment(providers: Mapping[str, Json], environment: Mapping[str, str]) -> dict[str, str]:
    """The user's file in the words of the environment; the environment itself wins."""
    found: dict[str, str] = {}
    for provider, table in providers.items():
        for name, value in _table(table, f"providers.{provider}", "the user's file").items():
            if not isinstance(value, str):
                raise Misconfigured(f"providers.{provider}.{name} must be text")
            found[f"{provider}_{name}".upper().replace("-", "_")] = value
    return {**found, **environment}


def _saved_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """What `hames login` saved. Everything else that names a key comes before it."""
    from hames.config.credentials import Credentials

    return Credentials.of_user(environment).values()


def _approval_policy(setting: Setting) -> ApprovalPolicy:
    for policy in get_args(ApprovalPolicy):
        if policy == setting.value:
            return policy
    names = ", ".join(get_args(ApprovalPolicy))
    raise Misconfigured(f"approval_policy is {setting.value!r} ({setting.origin}); it must be one of {names}")


def _log_level(setting: Setting) -> str:
    levels = ("debug", "info", "warning", "error")
    if setting.value not in levels:
        raise Misconfigured(f"log_level is {setting.value!r} ({setting.origin}); it must be one of {', '.join(levels)}")
    return setting.value


def _shown(name: str, setting: Setting, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Paths that a sandbox is to show. A typo must not open everything."""
    where = f"{name} ({setting.origin})"
    home = environment.get("HOME") or str(Path.home())
    for path in setting.value:
        if not isinstance(path, str) or "\0" in path:
            raise Misconfigured(f"{where} must be a list of texts, each a path")
        if not path.startswith(("/", "~/")) or ".." in path.split("/"):
            raise Misconfigured(f"{where}: {path!r} must be a path from the root, or from the home directory with '~/'")
        full = Path(home, path[2:]) if path.startswith("~/") else Path(path)
        if Path(home).is_relative_to(full):
            raise Misconfigured(f"{where}: {path!r} would show the whole home directory; name what is needed in it")
    return tuple(setting.value)


def _limit(name: str, settings: Mapping[str, Setting]) -> int:
    value = settings[name].value
    if not isinstance(value, int) or value < 0:
        auto = ', or "auto"' if name == "max_memory_mb" else ""
        raise Misconfigured(f"{name} is {value!r} ({settings[name].origin}); it must be a number, 0 for no limit{auto}")
    return value


def _search_command(setting: Setting) -> tuple[str, ...]:
    words = setting.value
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise Misconfigured(f"search_command ({setting.origin}) must be a list of texts: a program and its arguments")
    if words and ("{query}" in words[0] or not words[0] or ("/" in words[0] and not words[0].startswith("/"))):
        raise Misconfigured(
            f"search_command ({setting.origin}) must begin with a program: a name, or a path from the root"
        )
    return tuple(words)


def _mcp_servers(setting: Setting) -> dict[str, McpServer]:
    try:
        servers = msgspec.convert(setting.value, dict[str, McpServer], strict=True)
    except msgspec.ValidationError as problem:
        raise Misconfigured(f"mcp_servers ({setting.origin}): {problem}") from None
    for name, server in servers.items():
        if bool(server.command) == bool(server.url):
            raise Misconfigured(f"the MCP server {name!r} ({setting.origin}) needs a command or a url, and not both")
    return servers
