"""Send one prompt, with the options and the JSON events of `codex exec`. For programs made for Codex.

  hames exec "Fix the build"
  git diff | hames exec "Review this change"
  hames exec --json -C project -s read-only "List the public functions"
  hames exec resume --last "And now fix it"
  hames exec resume ID -

For your own scripts `hames run` is the better command: it can ask you, and its events have more in them.

The final message goes to stdout and everything else to stderr. With --json stdout has the events that
`codex exec --json` has. The prompt is read from stdin if it is missing or `-`; if there is a prompt and a
pipe, the pipe's text is added to the prompt.

Nobody is asked: the approval policy is `never`, and with `-c approval_policy=on-request` whatever would ask is
declined. Commands run in the sandbox of your configuration, which is workspaceWrite by default.

Exit code: 0 completed, 1 failed, 2 a bad option or an unknown model (nothing was started), 130 interrupted.
"""

import os
import stat
import sys
from argparse import ArgumentParser, Namespace

import anyio
from msgspec.structs import replace

from hames.cli import flags
from hames.cli.codex.settings import (
    CodexSettings,
    approval_policy,
    ignored,
    load_options,
    read_image_list,
    read_settings,
)
from hames.cli.in_process import in_process
from hames.cli.output.codex_events import CodexEventsView
from hames.cli.output.terminal import RunView, TerminalView
from hames.cli.paint import Paint
from hames.cli.parsing import Parser
from hames.cli.run import PromptRun, existing_file, read_schema
from hames.config.load import Options
from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.protocols.flint.items import LocalImageInput, TextInput, UserInput


def add_arguments(parser: ArgumentParser) -> None:
    if isinstance(parser, Parser):
        parser.mixes_words_and_options = True
    parser.add_argument(
        "words", metavar="[resume ID|--last] PROMPT", nargs="*", help="what to do; - reads it from stdin"
    )
    parser.add_argument("--last", dest="last", action="store_true", help="with resume: the last thread")
    parser.add_argument("--json", "--experimental-json", action="store_true", help="print Codex's events as JSON lines")
    parser.add_argument("--output-schema", metavar="FILE", help="the answer is JSON that matches this JSON Schema")
    parser.add_argument("-o", "--output-last-message", metavar="FILE", help="also write the final message to this file")
    parser.add_argument("-i", "--image", metavar="FILE", action="append", default=[], help="attach a picture")
    parser.add_argument(
        "-c", "--config", metavar="KEY=VALUE", action="append", default=[], help="a setting, as `codex -c` has it"
    )
    parser.add_argument("--add-dir", metavar="DIR", action="append", default=[], help="another directory to write to")
    parser.add_argument("--full-auto", action="store_true", help="the sandbox policy workspaceWrite, and no questions")
    parser.add_argument(
        "--dangerously-bypass-approvals-and-sandbox",
        "--yolo",
        dest="bypass",
        action="store_true",
        help="no questions and no sandbox",
    )
    parser.add_argument(
        "--skip-git-repo-check", action="store_true", help="allowed and not needed: hames runs in any directory"
    )
    parser.add_argument("--thread-source", metavar="NAME", help="saved with a new thread: what started it")
    parser.add_argument(
        "--cyber-access-program", choices=("standard",), help="accepted for Codex's clients: there is no other one"
    )
    for name in ("--enable", "--disable"):
        parser.add_argument(
            name, metavar="FEATURE", action="append", default=[], help="Codex's feature flags: reported"
        )
    parser.add_argument("--color", choices=("always", "never", "auto"), default="auto", help="colours on stderr")
    flags.add_shared(parser)


CODEX_CODES = {4: 1, 5: 1, 6: 1, 7: 1, 8: 0, 9: 0}
"""Codex's own exit codes tell less apart."""


def run(args: Namespace) -> int:
    words, args.thread = _resumed(args)
    settings = read_settings(args.config)
    options = _options(args, settings)
    args.attach, args.declines, args.server = False, True, ""
    args.option = [f"{name}={value}" for name, value in settings.options.items()]
    args.wishes = settings.wishes
    wanted = read_schema(args.output_schema)
    parts: list[UserInput] = [TextInput(text=_prompt(words))]
    parts += [LocalImageInput(path=str(existing_file(name))) for name in read_image_list(args.image)]
    features = [f"features.{name}" for name in (*args.enable, *args.disable)]
    notices = [ignored(name) for name in (*settings.unknown, *features)]
    view: RunView
    if args.json:
        view = CodexEventsView(sys.stdout, notices=notices, schema=wanted is not None)
    else:
        view = _terminal_view(args, alone=wanted is not None)
        for notice in notices:
            print(f"hames: {notice}", file=sys.stderr)
    prompt_run = PromptRun(args, options, parts, view, wanted)
    code = anyio.run(prompt_run.run, in_process(options, name="hames-exec"))
    return CODEX_CODES.get(code, code)


def _resumed(args: Namespace) -> tuple[list[str], str | None]:
    """The words of the prompt, and the thread that goes on."""
    words: list[str] = args.words
    if words[:1] == ["review"] and len(words) == 1:
        raise InvalidCommand('hames exec has no review; use hames run "Review my changes" --option agent=review')
    if words[:1] != ["resume"]:
        if args.last:
            raise InvalidCommand("--last belongs to resume: hames exec resume --last PROMPT")
        return words, None
    if args.last:
        return words[1:], None
    if len(words) < 2:
        raise InvalidCommand("name the thread to resume, or say --last; hames threads lists them")
    return words[2:], words[1]


def _options(args: Namespace, settings: CodexSettings) -> Options:
    """The configuration with Codex's flags and settings. Flags are stronger than settings. Raises `Misconfigured`."""
    values = dict(settings.values)
    policy: str = args.approval_policy or values.get("approval_policy") or "never"
    sandbox: Json = args.sandbox or values.get("sandbox")
    if args.full_auto:
        policy, sandbox = "never", "workspaceWrite"
    if args.bypass:
        policy, sandbox = "never", "dangerFullAccess"
    args.model = args.model or values.get("model")
    values["approval_policy"] = approval_policy(policy)
    if sandbox is not None:
        values["sandbox"] = sandbox
    args.approval_policy = args.sandbox = None
    if key := os.environ.get("CODEX_API_KEY"):  # how Codex's SDKs hand a key over
        os.environ["OPENAI_API_KEY"] = key
    options = load_options(args, replace(settings, values=values), args.add_dir)
    # From here on it only matters that they were given.
    args.approval_policy, args.sandbox = policy, "sandbox" in values
    return options


def _prompt(words: list[str]) -> str:
    if len(words) > 1:
        raise InvalidCommand(f"put the prompt in quotes: hames exec {' '.join(words)!r}")
    prompt = words[0] if words else "-"
    if prompt == "-":
        prompt = "" if sys.stdin.isatty() else sys.stdin.read()
    elif _has_input() and (piped := sys.stdin.read()).strip():
        prompt = f"{prompt}\n\n<stdin>\n{piped}\n</stdin>"
    if not prompt.strip():
        raise InvalidCommand('the prompt is missing; for example: hames exec "Fix the tests"')
    return prompt


def _has_input() -> bool:
    """Whether something is piped in, as opposed to a terminal, /dev/null or nothing at all."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _terminal_view(args: Namespace, *, alone: bool) -> TerminalView:
    paint = Paint.for_stream(sys.stderr) if args.color == "auto" else Paint(colour=args.color == "always")
    view = TerminalView(None, sys.stderr, paint=paint, asks=False)
    view.final_only = not alone
    return view
