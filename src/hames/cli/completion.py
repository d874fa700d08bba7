"""Write the completions of a shell, made from the commands themselves.

hames completion bash > ~/.local/share/bash-completion/completions/hames
hames completion zsh > ~/.zfunc/_hames
hames completion fish > ~/.config/fish/completions/hames.fish
"""

from argparse import Action, ArgumentParser, Namespace
from importlib import import_module
from importlib.util import find_spec

from hames.cli.main import COMMANDS
from hames.domain.value import Value

SHELLS = ("bash", "zsh", "fish")


class Word(Value):
    """A flag, or a fixed word that may stand there."""

    text: str
    help: str
    takes: tuple[str, ...] = ()
    """The values it takes, when they are known."""
    file: bool = False
    """Whether a path follows."""
    valued: bool = False


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def run(args: Namespace) -> int:
    print({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](words()))
    return 0


def words() -> dict[str, list[Word]]:
    """Every command of this installation with what may follow it."""
    found: dict[str, list[Word]] = {}
    for name in COMMANDS:
        module_name = f"hames.cli.{name.replace('-', '_')}"
        if find_spec(module_name) is None:
            continue
        parser = ArgumentParser(prog=name)
        import_module(module_name).add_arguments(parser)
        found[name] = [word for action in parser._actions for word in _words(action)]
    return found


def _words(action: Action) -> list[Word]:
    help_text = (action.help or "").replace("%(default)s", str(action.default))
    choices = tuple(str(choice) for choice in action.choices or ())
    if not action.option_strings:
        return [Word(text=choice, help="") for choice in choices]
    paths = str(action.metavar) in ("FILE", "DIR", "SOCKET")
    valued = action.nargs != 0
    return [Word(text=flag, help=help_text, takes=choices, file=paths, valued=valued) for flag in action.option_strings]


def bash(commands: dict[str, list[Word]]) -> str:
    cases = "\n".join(
        f'    {name}) words="{" ".join(word.text for word in found)}" ;;' for name, found in commands.items()
    )
    values = {word.text: word.takes for found in commands.values() for word in found if word.takes}
    after = "\n".join(
        f'    {flag}) COMPREPLY=($(compgen -W "{" ".join(takes)}" -- "$current")); return ;;'
        for flag, takes in values.items()
    )
    paths = "|".join(sorted({word.text for found in commands.values() for word in found if word.file}))
    return f"""# bash completion of hames
_hames() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  case "$before" in
{after}
    {paths}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _hames hames"""


def zsh(commands: dict[str, list[Word]]) -> str:
    listed = "\n".join(f"    '{name}:{_quoted(COMMANDS[name])}'" for name in commands)
    cases = "\n".join(f"    {name})\n      _arguments {_zsh_words(found)} ;;" for name, found in commands.items())
    return f"""#compdef hames
_hames() {{
  local -a commands
  commands=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case $words[2] in
{cases}
  esac
}}
_hames "$@\""""


def _zsh_words(found: list[Word]) -> str:
    made: list[str] = []
    fixed = [word.text for word in found if not word.text.startswith("-")]
    for word in found:
        if not word.text.startswith("-"):
            continue
        value = f":value:({' '.join(word.takes)})" if word.takes else ":file:_files" if word.file else ":value: "
        made.append(f"'{word.text}[{_quoted(word.help)}]{value if word.valued else ''}'")
    made.append(f"'*::word:({' '.join(fixed)})'" if fixed else "'*::word:_files'")
    return " ".join(made)


def fish(commands: dict[str, list[Word]]) -> str:
    rows = ["# fish completion of hames", "complete -c hames -f"]
    rows += [
        f"complete -c hames -n __fish_use_subcommand -a {name} -d '{_quoted(COMMANDS[name])}'" for name in commands
    ]
    for name, found in commands.items():
        when = f"-n '__fish_seen_subcommand_from {name}'"
        for word in found:
            rows.append(f"complete -c hames {when} {_fish_word(word)}")
    return "\n".join(rows)


def _fish_word(word: Word) -> str:
    if not word.text.startswith("-"):
        return f"-a {word.text}"
    name = f"-l {word.text[2:]}" if word.text.startswith("--") else f"-s {word.text[1:]}"
    value = ""
    if word.takes:
        value = f" -x -a '{' '.join(word.takes)}'"
    elif word.valued:
        value = " -r -F" if word.file else " -x"
    return f"{name}{value} -d '{_quoted(word.help)}'"


def _quoted(text: str) -> str:
    """Safe between single quotes, brackets and colons of three shells."""
    return text.replace("\\", "").replace("'", "").replace("[", "(").replace("]", ")").replace(":", ",")
