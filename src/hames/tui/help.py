"""The help: every key and every slash command, in words."""

from rich.text import Text

from hames.tui.lines import indented, line, paragraphs
from hames.tui.palette import Palette

COMMANDS = {
    "help": "show keys and commands",
    "new": "start a new thread",
    "clear": "start a new thread (the old one stays in /threads)",
    "threads": "list threads: open, fork, rename, archive, search",
    "resume": "open an earlier thread: /resume ID, or choose from the list",
    "fork": "continue in a copy of this thread",
    "rename": "name this thread",
    "archive": "archive this thread and start a new one",
    "model": "choose the model",
    "mode": "choose how much the agent does by itself: plan, ask or auto",
    "plan": "plan mode on or off: the agent reads and plans, changes nothing",
    "go": "leave plan mode and let the agent carry out the plan; /go WORDS adds to it",
    "approvals": "the same list as /mode",
    "permissions": "the same as /approvals",
    "sandbox": "choose what commands can reach",
    "options": "all options of the model and the agent",
    "context": "show what fills the model's context",
    "compact": "replace the conversation so far by a summary, to save context",
    "review": "review the uncommitted changes: /review, /review WHAT, or /review --agent NAME for another agent's eyes",
    "init": "let the agent write AGENTS.md, the project's notes for agents",
    "diff": "show uncommitted changes (git diff)",
    "undo": "take back what the last turn did to files; /undo FILE only there",
    "redo": "do again what /undo took back",
    "rewind": "go back to an earlier message: files, conversation, or both",
    "worktree": "work in a git worktree of its own; later: merge, keep or drop it",
    "mcp": "list the MCP servers",
    "ps": "list the agent's background processes; /ps 2 ends the second",
    "queue": "send a message after the running turn: /queue MESSAGE",
    "drop": "remove queued messages: /drop 2 removes the second, /drop removes all",
    "history": "search your earlier messages",
    "editor": "write the message in your editor ($EDITOR)",
    "copy": "copy the last answer",
    "status": "show thread, model, mode, approvals, sandbox, tokens and cost",
    "theme": "choose the colours: /theme light, /theme dark, or choose from the list",
    "exit": "close Hames",
    "quit": "close Hames",
}

BARE_COMMANDS = {"exit": "/exit", "quit": "/exit", ":q": "/exit", "help": "/help"}
"""Messages without a slash that are commands, too."""

OTHER_NAMES = {
    "policy": "approvals",
    "permissions": "approvals",
    "q": "exit",
    "quit": "exit",
    "clear": "new",
    "cost": "status",
    "tokens": "status",
    "usage": "status",
    "sessions": "threads",
}
"""Names of commands in other tools."""

POINTERS = {
    "add-dir": "Writable directories are set in config.toml: "
    'sandbox = { type = "workspaceWrite", writableRoots = ["DIR"] }',
    "agents": "There are no subagents. /plan plans, /review reviews; hames --agent codex lets Codex do the work",
    "bug": "Report it where you got Hames; --log-level debug --log-file FILE writes a log",
    "config": "Settings are in config.toml; in a shell, hames config shows each of them and where it comes from",
    "doctor": "In a shell: hames doctor",
    "hooks": "There are no hooks",
    "login": "In a shell: hames login PROVIDER saves a key; hames setup chooses provider and model",
    "logout": "In a shell: hames login PROVIDER --remove",
    "memory": "Notes for the agent are in AGENTS.md (or CLAUDE.md) in the project; /init writes a first version",
    "mention": "Type @ and the name of a file",
    "output-style": "Say in AGENTS.md how the agent should write",
    "skills": "There are no skills. Notes for the agent are in AGENTS.md",
    "vim": "ctrl+x ctrl+e writes the message in your editor",
}
"""Commands of other tools, and what to do here."""

KEYS = {
    "enter": "send the message; while a turn runs, send it to the running turn",
    "tab": "while a turn runs, queue the message for the next turn",
    "shift+enter, ctrl+j": "new line (so does \\ at the end of a line)",
    "esc": "stop the turn; with no turn running, jump to the latest message",
    "shift+tab": "change the mode: plan, ask, auto",
    "ctrl+p": "plan mode on or off",
    "! at the start": "run a shell command yourself, outside the sandbox",
    "@": "attach a file; a pasted path of an image attaches the image",
    "up, down": "earlier messages; ctrl+r searches them",
    "ctrl+o": "unfold or fold everything; a click does one",
    "pageup, pagedown": "scroll; ctrl+home and ctrl+end go to the ends",
    "ctrl+t": "threads",
    "ctrl+n": "new thread",
    "ctrl+l": "models",
    "ctrl+g": "options",
    "alt+up": "take the last queued message back",
    "ctrl+_": "undo typing; ctrl+y redoes it",
    "ctrl+x ctrl+e": "write the message in your editor",
    "ctrl+z": "suspend Hames; fg in the shell brings it back",
    "ctrl+c": "copy the selected text, else clear the message, else stop the turn; twice: close Hames",
    "ctrl+d": "close Hames",
    "f1, ?": "this help (? only in an empty message box)",
}


def help_text(colours: Palette, width: int) -> Text:
    text = Text()
    for title, rows in (("Keys", KEYS), ("Commands", {f"/{name}": words for name, words in COMMANDS.items()})):
        text.append(f"{title}\n", colours.strong)
        for name, words in rows.items():
            for row in indented(paragraphs(words, colours.text, width - 21), line((f"{name:<21}", colours.accent))):
                text.append_text(row).append("\n")
        text.append("\n")
    text.rstrip()
    return text
