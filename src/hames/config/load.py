"""The effective configuration: defaults < user < trusted project < environment < flags, each value with its origin.

Keys and endpoints come from the process environment or the user's own file, never from a workspace.
"""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from hames.config import words
from hames.config.agents import AgentProgram, read_agents
from hames.config.budgets import read_budgets
from hames.config.choices import one_of
from hames.config.credentials import Credentials
from hames.config.keys import BY_ENVIRONMENT, DEFAULTS, NAMES, OF_PROJECTS, unknown_key
from hames.config.language_servers import language_servers
from hames.config.mcp import MCP_JSON, McpServer, read_mcp_json
from hames.config.modes import apply_mode
from hames.config.network import asking_about_hosts, checked_network
from hames.config.paths import PROJECT_CONFIG, data_directory, user_config, user_state
from hames.config.project import ProjectTrust, ignored, read_obeyed
from hames.config.providers import read_providers
from hames.config.rules import flag_rules
from hames.config.setting import Setting
from hames.domain.budgets import Budgets
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.language_servers import LanguageServerOptions
from hames.domain.policy import AfterCrash, AgentName, ApprovalPolicy, DefaultAnswer, SandboxPolicy, WorkspaceWrite
from hames.domain.rules import Rule
from hames.domain.value import Value

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
SECRET = ("api_key", "token", "password", "secret")


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
    """When the agent asks you first: never (`never`), before anything leaves the sandbox (`onRequest`), for risky
    actions (`unlessTrusted`), or every time (`always`)."""
    mode: str = ""
    """How much the agent does by itself: `plan` (changes nothing), `ask` (asks for risky actions) or `auto` (asks
    before anything leaves the sandbox). Without it, `auto` where `hames doctor` proved the sandbox, else `ask`."""
    agent: AgentName = "code"
    rules: tuple[Rule, ...] = ()
    """Tables that allow, ask about or deny commands, files, hosts and MCP tools: see approvals.md."""
    approval_deadline: int = 0
    """After how many seconds without an answer an approval gets the answer `approval_default`. 0: it waits."""
    approval_default: DefaultAnswer = "reject"
    """The answer of an approval whose deadline passed: `reject`, or `once`, which allows it this time."""
    v1_policy: ApprovalPolicy | Literal[""] = ""
    """The `approval_policy` of threads that clients of `/v1` (OpenAI's APIs) and `/agui` (AG-UI) start over `hames
    serve`. Without it they ask as every thread does. `--v1-policy` takes precedence."""
    after_crash: AfterCrash = "go_on"
    """What happens to a turn when Hames stopped before the turn ended: it goes on when the thread is opened again
    (`go_on`), you are asked first (`ask`), or it ends (`end`)."""
    sandbox: SandboxPolicy = WorkspaceWrite()
    """What commands can read, write and reach: the name of a policy, or a table with `type` and its settings."""
    allow_degraded: bool = False
    """If bubblewrap is missing, run commands with Landlock alone, which is weaker."""
    instructions: str = ""
    """Text that is added to the instructions of the model."""
    max_steps: int = 200
    """How many model calls a turn may make."""
    budgets: Budgets = Budgets()
    """How much a turn, a thread and a day may use before you are asked: tables `turn`, `thread` and `day` with `usd`,
    `tokens`, `minutes` and `steps`."""
    compact_at: int = 0
    """From how many tokens on the oldest parts of a conversation are shortened. 0 is 80 % of the model's window, and
    300,000 at most."""
    undo_mb: int = 1024
    """How much disk space undo can use for each workspace, in megabytes; the oldest turns go first. 0 turns it off."""
    thread_copy_days: int = 90
    """How many days a thread can be restored after its directory was deleted. 0: no second copy is kept."""
    log_file: str = ""
    """Write the log to this file instead of to stderr."""
    log_level: str = "warning"
    """How much is logged: `debug`, `info`, `warning` or `error`."""
    extra_path: tuple[str, ...] = ()
    """Directories in front of the PATH of commands."""
    extra_read: tuple[str, ...] = ()
    """More paths that commands in the sandbox and file tools can read, beside the system and the usual tools."""
    extra_cache: tuple[str, ...] = ()
    """Directories that commands can read and change, but only in a private copy that is deleted afterwards."""
    max_memory_mb: int | None = None
    """Memory that a command can use together with everything it starts, in megabytes. `"auto"` is three quarters of the
    machine's memory, 0 is no limit."""
    max_file_mb: int = 16_384
    """The largest file that a command can write, in megabytes. 0 is no limit."""
    max_processes: int = 4096
    """How many processes a command can have at the same time. 0 is no limit."""
    search_command: tuple[str, ...] = ()
    """A program with arguments that searches the web, for models whose service cannot. `{query}` is replaced."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers whose tools the model can use, by name."""
    language_servers: LanguageServerOptions = LanguageServerOptions()
    """Whether the project's language servers check edited files: `"auto"` (where commands run without a question),
    `"on"`, `"off"`, or a table of servers."""
    agents: dict[str, AgentProgram] = {}
    """Agent programs that speak ACP, by name: how each is started. `--agent NAME` lets one carry out the turns."""
    own_providers: tuple[str, ...] = ()
    """Names in `[providers.NAME]` that are not built in: servers that speak chat completions."""
    settings: dict[str, Setting] = {}
    """Every effective value with its origin, for people."""
    untrusted: tuple[str, ...] = ()
    """Files of the workspace that are ignored because it is not trusted."""
    warnings: tuple[str, ...] = ()
    """What of the workspace's configuration is ignored, and why: a sentence each."""


T = TypeVar("T")


class ManyProblems(Misconfigured):
    """Everything that is wrong with the configuration, so that it can be mended in one go."""

    def __init__(self, problems: list[str]) -> None:
        head = "" if len(problems) == 1 else f"the configuration has {len(problems)} problems:\n  "
        super().__init__(head + "\n  ".join(problems))
        self.problems = tuple(problems)


def load(flags: Mapping[str, Json], environment: Mapping[str, str], *, problems: list[str] | None = None) -> Options:
    """Raises `Misconfigured` with a sentence for everything that is wrong; nothing is written.

    With a list of `problems` they go there instead, and what is wrong has its default.
    """
    cwd = _directory(flags.get("cwd"))
    found = problems if problems is not None else []
    options = _load(cwd, flags, environment, found)
    if found and problems is None:
        raise ManyProblems(found)
    return options


def _load(cwd: Path, flags: Mapping[str, Json], environment: Mapping[str, str], problems: list[str]) -> Options:
    state = Path(user_state(environment))
    settings = {name: Setting(value=value, origin="default") for name, value in DEFAULTS.items()}
    path = Path(user_config(environment))

    def tried(read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except Misconfigured as problem:
            problems.append(str(problem))
            return otherwise

    def valued(name: str, read: Callable[[Setting], T]) -> T:
        """A setting's value; its default's where it makes no sense."""
        default = Setting(value=DEFAULTS[name], origin="default")
        try:
            return read(settings[name])
        except Misconfigured as problem:
            problems.append(str(problem))
            settings[name] = default
            return read(default)

    user = tried(lambda: _toml(_bytes(path), str(path)), {})
    by_file, own_providers = read_providers(user.pop("providers", {}), str(path), problems)
    _take(settings, user, str(path), problems)
    trust = ProjectTrust(state)
    if trust.trusts(cwd):
        project = tried(lambda: _toml(read_obeyed(cwd, PROJECT_CONFIG), PROJECT_CONFIG), {})
        if private := {name for name in project if _is_private(name)}:
            problems.append(
                f"{PROJECT_CONFIG} may not set {', '.join(sorted(private))}: that belongs in the user's own file"
            )
        public = {name: value for name, value in project.items() if name not in private}
        _take(settings, public, PROJECT_CONFIG, problems, known=OF_PROJECTS)
        shared = tried(lambda: read_mcp_json(read_obeyed(cwd, MCP_JSON)), {})
        if shared:
            _take(settings, {"mcp_servers": msgspec.to_builtins(shared)}, MCP_JSON, problems)
    untrusted = tuple(trust.asks_for(cwd))
    warnings = ignored(cwd, untrusted, changed=trust.trusted_before(cwd))
    by_variable = {name: environment[key] for key, name in BY_ENVIRONMENT.items() if environment.get(key)}
    _take(settings, by_variable, "environment", problems)
    _take(settings, {name: flags[name] for name in NAMES if flags.get(name) is not None}, "flag", problems)
    home = environment.get("HOME") or str(Path.home())
    rules: tuple[Rule, ...] = ()
    if user.get("rules") or flags.get("rules"):
        rules = flag_rules(user, path, flags.get("rules") or [], base=str(cwd), home=home, problems=problems)
    ranks = {"default": 0, str(path): 1, PROJECT_CONFIG: 2, "environment": 3, "flag": 4}
    agent = apply_mode(settings, ranks, problems)
    sandbox = valued("sandbox", sandbox_policy)
    sandbox = tried(lambda: _with_roots(sandbox, settings["sandbox"], home), WorkspaceWrite())
    policy = valued("approval_policy", _approval_policy)
    settings["approval_policy"] = replace(settings["approval_policy"], value=policy)
    sandbox = asking_about_hosts(sandbox, settings["sandbox"].value, policy)
    if isinstance(name := settings["sandbox"].value, str):
        settings["sandbox"] = replace(settings["sandbox"], value=words.sandbox_name(name))
    return Options(
        cwd=cwd,
        data_dir=Path(data_directory(str(cwd), flags.get("data_dir"))),
        state_dir=state,
        notes_dir=path.parent,
        # What `hames login` saved comes last: everything else that names a key is stronger.
        environment={**tried(Credentials.of_user(environment).values, {}), **by_file, **environment},
        model=settings["model"].value,
        approval_policy=policy,
        mode=settings["mode"].value,
        agent=agent,
        rules=rules,
        approval_deadline=valued("approval_deadline", lambda setting: _limit("approval_deadline", setting)) or 0,
        approval_default=valued(
            "approval_default", lambda set_: _word("approval_default", set_, get_args(DefaultAnswer))
        ),
        v1_policy=valued("v1_policy", lambda one: one.value and _word("v1_policy", one, get_args(ApprovalPolicy))),
        after_crash=valued("after_crash", lambda setting: _word("after_crash", setting, get_args(AfterCrash))),
        sandbox=sandbox,
        allow_degraded=settings["allow_degraded"].value,
        instructions=settings["instructions"].value,
        max_steps=settings["max_steps"].value,
        budgets=valued("budgets", lambda setting: read_budgets(setting.value, setting.origin)),
        compact_at=valued("compact_at", lambda setting: _limit("compact_at", setting)) or 0,
        undo_mb=valued("undo_mb", lambda setting: _limit("undo_mb", setting)) or 0,
        thread_copy_days=valued("thread_copy_days", lambda setting: _limit("thread_copy_days", setting)) or 0,
        log_file=settings["log_file"].value,
        log_level=valued("log_level", lambda setting: _word("log_level", setting, LOG_LEVELS)),
        extra_path=tuple(settings["extra_path"].value),
        extra_read=valued("extra_read", lambda setting: _shown("extra_read", setting, home)),
        extra_cache=valued("extra_cache", lambda setting: _shown("extra_cache", setting, home)),
        max_memory_mb=valued("max_memory_mb", lambda setting: _limit("max_memory_mb", setting)),
        max_file_mb=valued("max_file_mb", lambda setting: _limit("max_file_mb", setting)) or 0,
        max_processes=valued("max_processes", lambda setting: _limit("max_processes", setting)) or 0,
        search_command=valued("search_command", _search_command),
        mcp_servers=valued("mcp_servers", _mcp_servers),
        language_servers=replace(
            valued("language_servers", lambda one: language_servers(one.value, one.origin)),
            trusted=str(cwd) if trust.has_trusted(cwd) else "",
        ),
        agents=valued("agents", lambda setting: read_agents(setting.value, setting.origin)),
        own_providers=own_providers,
        settings=settings,
        untrusted=untrusted,
        warnings=tuple(warnings),
    )


def sandbox_policy(setting: Setting) -> SandboxPolicy:
    """By name, or as a table with `type`. Spellings of other tools are understood."""
    value, where = setting.value, f"sandbox is {setting.value!r} ({setting.origin})"
    try:
        table = words.sandbox_table(value if isinstance(value, dict) else {"type": value})
    except Misconfigured as problem:
        raise Misconfigured(f"sandbox ({setting.origin}) {problem}") from None
    if table.get("type") not in words.SANDBOXES:
        what = "its type" if isinstance(value, dict) else "it"
        raise Misconfigured(f"{where}; {what} must be one of {', '.join(words.SANDBOXES)}")
    try:
        return checked_network(msgspec.convert(table, SandboxPolicy, strict=True), value, setting.origin)
    except msgspec.ValidationError as problem:
        raise Misconfigured(f"{where}, which cannot be used: {problem}") from None


def _with_roots(policy: SandboxPolicy, setting: Setting, home: str) -> SandboxPolicy:
    """The policy with its writable roots as absolute paths to directories that exist."""
    if not isinstance(policy, WorkspaceWrite) or not policy.writable_roots:
        return policy
    roots: list[str] = []
    for root in policy.writable_roots:
        where = f"writableRoots of sandbox ({setting.origin}) names {root!r}"
        full = os.path.join(home, root[2:]) if root.startswith("~/") else root  # noqa: PTH118
        if "\0" in full or not full.startswith("/"):
            raise Misconfigured(f"{where}; it must be an absolute path, or begin with '~/'")
        if not Path(full).exists():
            raise Misconfigured(f"{where}, which does not exist. Create it, or remove it from the list")
        if not Path(full).is_dir():
            raise Misconfigured(f"{where}, which is not a directory. Remove it from the list")
        roots.append(full)
    return replace(policy, writable_roots=tuple(roots))


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


def _is_private(name: str) -> bool:
    """Nothing a repository may have a say in, however it is spelled."""
    known = name in NAMES or name == "providers" or any(word in name for word in SECRET)
    return known and name not in OF_PROJECTS


def _take(
    settings: dict[str, Setting],
    values: Mapping[str, Json],
    origin: str,
    problems: list[str],
    *,
    known: Collection[str] = (*NAMES, "providers"),
) -> None:
    for name, value in values.items():
        kind = NAMES.get(name)
        if kind is None:
            problems.append(unknown_key(name, origin, known))
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            problems.append(f"{name} is {value!r} ({origin}), which is the wrong type")
        elif isinstance(value, dict) and name == "mcp_servers":
            good = {server: table for server, table in value.items() if _checked(server, table, origin, problems)}
            settings[name] = Setting(value={**settings[name].value, **good}, origin=origin)
        else:
            settings[name] = Setting(value=value, origin=origin)


def _checked(server: str, table: Json, origin: str, problems: list[str]) -> bool:
    """Whether an MCP server's table can be used. Unknown keys are reported as problems."""
    known = [field.name for field in msgspec.structs.fields(McpServer)]
    unknown = [key for key in table if key not in known] if isinstance(table, dict) else []
    problems += [
        f"{origin} sets {key!r} in mcp_servers.{server}, which is not a known key."
        f" The keys are: {', '.join(sorted(known))}"
        for key in unknown
    ]
    return not unknown


def _approval_policy(setting: Setting) -> ApprovalPolicy:
    try:
        return words.approval_policy(setting.value)
    except Misconfigured as problem:
        raise Misconfigured(f"approval_policy is {setting.value!r} ({setting.origin}); {problem}") from None


def _word(name: str, setting: Setting, known: tuple[Any, ...]) -> Any:
    return one_of(name, setting.value, setting.origin, known)


def _shown(name: str, setting: Setting, home: str) -> tuple[str, ...]:
    """Paths that a sandbox is to show. A typo must not open everything."""
    where = f"{name} ({setting.origin})"
    for path in setting.value:
        if not isinstance(path, str) or "\0" in path:
            raise Misconfigured(f"{where} must be a list of paths")
        if not path.startswith(("/", "~/")) or ".." in path.split("/"):
            raise Misconfigured(f"{where}: {path!r} must be an absolute path, or begin with '~/'")
        full = Path(home, path[2:]) if path.startswith("~/") else Path(path)
        if Path(home).is_relative_to(full):
            raise Misconfigured(
                f"{where}: {path!r} would show the whole home directory; name only the"
                f" directories in it that are needed"
            )
    return tuple(setting.value)


_ZERO = {"compact_at": "the model's own limit", "undo_mb": "no undo", "thread_copy_days": "no copies"}
"""What 0 means, where it is not "no limit"."""


def _limit(name: str, setting: Setting) -> int | None:
    """None: "auto", which only the limit of memory can be."""
    value = setting.value
    auto = ', or "auto"' if name == "max_memory_mb" else ""
    nothing = _ZERO.get(name, "no limit")
    if auto and value == "auto":
        return None
    if not isinstance(value, int) or value < 0:
        raise Misconfigured(f"{name} is {value!r} ({setting.origin}); it must be a number, 0 for {nothing}{auto}")
    return value


def _search_command(setting: Setting) -> tuple[str, ...]:
    words = setting.value
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise Misconfigured(f"search_command ({setting.origin}) must be a list of strings: a program and its arguments")
    if words and ("{query}" in words[0] or not words[0] or ("/" in words[0] and not words[0].startswith("/"))):
        raise Misconfigured(f"search_command ({setting.origin}) must begin with a program: a name, or an absolute path")
    return tuple(words)


def _mcp_servers(setting: Setting) -> dict[str, McpServer]:
    try:
        servers = msgspec.convert(setting.value, dict[str, McpServer], strict=True)
    except msgspec.ValidationError as problem:
        raise Misconfigured(f"mcp_servers ({setting.origin}): {problem}") from None
    wrong = [name for name, server in servers.items() if bool(server.command) == bool(server.url)]
    if wrong:
        names = ", ".join(map(repr, wrong))
        raise Misconfigured(f"the MCP server {names} ({setting.origin}) needs either a command or a url")
    return servers
