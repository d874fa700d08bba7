"""Completion scripts: what is known beforehand is written into them, the rest they ask `hames` for."""

from collections.abc import Mapping

from hames.domain.value import Value

ASK = "hames completion --values"


class Word(Value):
    """A flag, a fixed word that may stand there, or (without a text) words that are looked up."""

    text: str
    help: str
    takes: tuple[str, ...] = ()
    """The values it takes, when they are known."""
    looked_up: str = ""
    """Which values `hames` must be asked for."""
    file: bool = False
    """Whether a path follows."""
    valued: bool = False


def _flags(found: list[Word]) -> list[Word]:
    return [word for word in found if word.text.startswith("-")]


def _fixed(found: list[Word]) -> list[str]:
    return [word.text for word in found if word.text and not word.text.startswith("-")]


def _asked(found: list[Word]) -> list[str]:
    return [word.looked_up for word in found if not word.text]


def bash(commands: Mapping[str, list[Word]], _: Mapping[str, str]) -> str:
    cases = "\n".join(_bash_case(name, found) for name, found in commands.items())
    every = {word.text: word for found in commands.values() for word in _flags(found) if word.valued}
    after = "\n".join(
        f'    {flag}) COMPREPLY=($(compgen -W "{_bash_values(word)}" -- "$current")); return ;;'
        for flag, word in every.items()
        if word.takes or word.looked_up
    )
    paths = "|".join(sorted(flag for flag, word in every.items() if word.file))
    flags = " ".join(word.text for word in _flags(commands["tui"]))
    return f"""# bash completion of hames
_hames_values() {{
  {ASK} "$1" 2>/dev/null | cut -f1
}}
_hames() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  case "$before" in
{after}
    {paths}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{" ".join(commands)} --version {flags}"
  else
    case "${{COMP_WORDS[1]}}" in
{cases}
    -*) words="{flags}" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _hames hames"""


def _bash_case(name: str, found: list[Word]) -> str:
    known = " ".join([*_fixed(found), *(word.text for word in _flags(found))])
    later = "".join(f'; [ "$COMP_CWORD" -gt 2 ] && words="$words $(_hames_values {kind})"' for kind in _asked(found))
    return f'    {name}) words="{known}"{later} ;;'


def _bash_values(word: Word) -> str:
    return " ".join(word.takes) or f"$(_hames_values {word.looked_up})"


def zsh(commands: Mapping[str, list[Word]], described: Mapping[str, str]) -> str:
    listed = "\n".join(f"    '{name}:{_quoted(described[name])}'" for name in commands)
    cases = "\n".join(f"    {name}) _arguments {_zsh_words(found)} ;;" for name, found in commands.items())
    return f"""#compdef hames
_hames_values() {{
  local tab=$'\\t'
  local -a found
  found=(${{(f)"$({ASK} $1 2>/dev/null)"}})
  found=(${{found//:/\\\\:}})
  found=(${{found//$tab/:}})
  _describe -t hames-$1 $1 found
}}
_hames() {{
  local -a commands
  commands=(
{listed}
  )
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  if [[ $words[2] == -* ]]; then
    _arguments {_zsh_words(commands["tui"])}
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{cases}
  esac
}}
if [[ $funcstack[1] == _hames ]]; then _hames "$@"; else compdef _hames hames; fi"""


def _zsh_words(found: list[Word]) -> str:
    made = [f"'{word.text}[{_quoted(word.help)}]{_zsh_value(word)}'" for word in _flags(found)]
    fixed, asked = _fixed(found), _asked(found)
    if fixed:
        made.append(f"'1:word:({' '.join(fixed)})'")
    made.append(f"'*:word: _hames_values {asked[0]}'" if asked else "'*:file:_files'")
    return " ".join(made)


def _zsh_value(word: Word) -> str:
    if not word.valued:
        return ""
    if word.takes:
        return f":value:({' '.join(word.takes)})"
    if word.looked_up:
        return f":{word.looked_up}: _hames_values {word.looked_up}"
    return ":file:_files" if word.file else ":value: "


def fish(commands: Mapping[str, list[Word]], described: Mapping[str, str]) -> str:
    rows = ["# fish completion of hames", "complete -c hames -f"]
    rows += [
        f"complete -c hames -n __fish_use_subcommand -a {name} -d '{_quoted(described[name])}'" for name in commands
    ]
    rows += [f"complete -c hames -n __fish_use_subcommand {_fish_word(word)}" for word in _flags(commands["tui"])]
    for name, found in commands.items():
        when = f"__fish_seen_subcommand_from {name}"
        second = f"__fish_seen_subcommand_from {' '.join(_fixed(found))}"
        for word in found:
            at = when
            if not word.text.startswith("-"):
                at += f"; and not {second}" if word.text else f"; and {second}"
            rows.append(f"complete -c hames -n '{at}' {_fish_word(word)}")
    return "\n".join(rows)


def _fish_word(word: Word) -> str:
    if not word.text:
        return f"-a '({ASK} {word.looked_up} 2>/dev/null)'"
    if not word.text.startswith("-"):
        return f"-a {word.text}"
    name = f"-l {word.text[2:]}" if word.text.startswith("--") else f"-s {word.text[1:]}"
    value = ""
    if word.takes:
        value = f" -x -a '{' '.join(word.takes)}'"
    elif word.looked_up:
        value = f" -x -a '({ASK} {word.looked_up} 2>/dev/null)'"
    elif word.valued:
        value = " -r -F" if word.file else " -x"
    return f"{name}{value} -d '{_quoted(word.help)}'"


def _quoted(text: str) -> str:
    """Safe between single quotes, brackets and colons of three shells."""
    return text.replace("\\", "").replace("'", "").replace("[", "(").replace("]", ")").replace(":", ",")
