"""Commands and flags of other agents, and what to type here instead. Read only when a word is not ours."""

from hames.deferred import pattern

COMMANDS = {
    "e": 'hames exec "PROMPT"',
    "ask": 'hames run "PROMPT"',
    "chat": "hames, which opens the terminal",
    "resume": "hames --continue for the last thread, or hames --thread ID; hames threads lists them",
    "continue": "hames --continue",
    "sessions": "hames threads",
    "session": "hames threads",
    "history": "hames threads",
    "list": "hames threads",
    "review": '/review in the terminal, or hames run "Review my changes" --option agent=review',
    "plan": '/plan in the terminal, or hames run "PROMPT" --option agent=plan',
    "fork": "hames threads fork ID",
    "archive": "hames threads archive ID",
    "unarchive": "hames threads unarchive ID",
    "delete": "hames threads rm ID",
    "export": "hames threads export ID",
    "logout": "hames login PROVIDER --remove",
    "auth": "hames login",
    "configure": "hames setup",
    "init": "hames setup for a model; project notes are read from AGENTS.md",
    "update": "pip install --upgrade hames",
    "upgrade": "pip install --upgrade hames",
    "web": "hames serve --open",
    "server": "hames serve",
    "mcp-server": "hames app-server or hames serve; hames is not an MCP server",
    "proto": "hames app-server",
    "apply": "git diff: changes are made in your files directly",
    "version": "hames --version",
}

_ANYTHING = "--approval-policy never --sandbox dangerFullAccess (no questions and no sandbox)"
_TOOLS = "--sandbox readOnly to allow no changes, or --approval-policy always to be asked about everything"
FLAGS = {
    "-p": 'hames run "PROMPT"',
    "--print": 'hames run "PROMPT"',
    "--prompt": 'hames run "PROMPT"',
    "-e": 'hames run "PROMPT"',
    "--profile": "HAMES_CONFIG=FILE, which names another configuration file; there are no profiles",
    "--settings": "HAMES_CONFIG=FILE, which names another configuration file",
    "--config": "--model, --sandbox or --approval-policy; other settings are in config.toml (hames config shows them)",
    "--full-auto": "--approval-policy never (commands stay in the sandbox)",
    "--auto": "--approval-policy never (commands stay in the sandbox)",
    "--yolo": _ANYTHING,
    "--dangerously-bypass-approvals-and-sandbox": _ANYTHING,
    "--dangerously-skip-permissions": "--approval-policy never (commands stay in the sandbox)",
    "--allow-dangerously-skip-permissions": "--approval-policy never (commands stay in the sandbox)",
    "--permission-mode": "--approval-policy never, onRequest, unlessTrusted or always; /plan plans only",
    "--ask": "--approval-policy always",
    "--search": "--option web_search=on with hames run, if the model's service can search",
    "-i": "--image FILE with hames run; in the terminal, paste the path of a picture",
    "--images": "--image FILE with hames run",
    "--image": "hames run with --image FILE; in the terminal, paste the path of a picture",
    "--allowedTools": _TOOLS,
    "--allowed-tools": _TOOLS,
    "--disallowedTools": _TOOLS,
    "--disallowed-tools": _TOOLS,
    "--tools": _TOOLS,
    "--output-format": "hames run --json for one event per line; without it the answer is plain text",
    "--input-format": "hames run -, which reads the prompt from stdin",
    "--json-schema": "hames run --output-schema FILE",
    "--include-partial-messages": "hames run --json, which includes them",
    "--experimental-json": "hames run --json",
    "--json": "hames run --json",
    "-o": "hames run --option ID=VALUE",
    "--output-last-message": "hames run --output-last-message FILE",
    "--output-schema": "hames run --output-schema FILE",
    "--resume": "--continue for the last thread, or --thread ID; hames threads lists them",
    "-r": "--continue for the last thread, or --thread ID; hames threads lists them",
    "--session": "--thread ID; hames threads lists them",
    "--session-id": "--thread ID; hames threads lists them",
    "--last": "--continue",
    "--all": "hames threads, which lists them",
    "--fork-session": "hames threads fork ID",
    "--fork": "hames threads fork ID",
    "--system-prompt": "instructions in config.toml, or AGENTS.md in the project",
    "--append-system-prompt": "instructions in config.toml, or AGENTS.md in the project",
    "--add-dir": 'sandbox = { type = "workspaceWrite", writableRoots = ["DIR"] } in config.toml',
    "--mcp-config": "hames mcp add, or .mcp.json in the project with hames trust",
    "--max-turns": "hames run --max-steps N, or max_steps in config.toml",
    "--max-steps": "hames run --max-steps N, or max_steps in config.toml",
    "--max-budget-usd": "hames run --max-cost USD, or budgets in config.toml",
    "--fallback-model": "--model MODEL; there is no fallback model",
    "--effort": "--option reasoning_effort=high with hames run",
    "--verbose": "--log-level debug --log-file FILE",
    "--debug": "--log-level debug --log-file FILE",
    "-v": "--version",
    "--oss": "--model ollama/NAME",
    "--local-provider": "--model ollama/NAME or --model lmstudio/NAME",
    "--provider": "--model PROVIDER/MODEL",
    "--color": "NO_COLOR=1 or FORCE_COLOR=1 in the environment",
    "--no-color": "NO_COLOR=1 in the environment",
    "--skip-git-repo-check": "Leave it out: hames runs in any directory",
    "--remote-control": "hames serve",
    "--remote": "hames serve",
    "--worktree": "git worktree add DIR, and hames --cwd DIR",
}
SETTINGS = {
    "model": "--model",
    "sandbox": "--sandbox",
    "sandbox_mode": "--sandbox",
    "approval_policy": "--approval-policy",
    "cwd": "--cwd",
    "log_level": "--log-level",
    "log_file": "--log-file",
    "model_reasoning_effort": "--option reasoning_effort=",
}
_SETTING = pattern(r"([A-Za-z_][\w.-]*)=(\S*)")


def instead_of_command(word: str) -> str:
    """What to type instead of another tool's command, or nothing."""
    return COMMANDS.get(word, "")


def instead_of_flag(word: str) -> str:
    """What to type instead of another tool's flag, or nothing."""
    return FLAGS.get(word.partition("=")[0], "")


def setting_as_prompt(word: str, *, after_continue: bool) -> str:
    """What is wrong with `KEY=VALUE` where a prompt is expected; nothing, if it may be one.

    >>> setting_as_prompt("model=gpt-5", after_continue=True)
    "'model=gpt-5' is not a prompt; -c continues the last thread and takes no settings. Use --model gpt-5"
    >>> setting_as_prompt("x=1", after_continue=False)
    ''
    """
    found = _SETTING.fullmatch(word)
    if not found or not (after_continue or found[1] in SETTINGS):
        return ""
    flag, value = SETTINGS.get(found[1], ""), found[2].strip("\"'")
    right = f"{flag}{value}" if flag.endswith("=") else f"{flag} {value}" if flag else "config.toml for other settings"
    why = "; -c continues the last thread and takes no settings" if after_continue else ""
    return f"{word!r} is not a prompt{why}. Use {right}"
