"""The words of `hames mcp add`, in the order in which people know them from other agents.

Options may stand before and behind the name. The first word after the name that is no option begins the program (or is
the address), and everything behind it is the program's own; `--` says where that is.
"""

import re
from collections.abc import Callable

from hames.config.mcp import McpServer
from hames.domain.errors import InvalidCommand

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
USAGE = """\
hames mcp add NAME [OPTIONS] [--] PROGRAM [ARGUMENTS …]
       hames mcp add NAME [OPTIONS] ADDRESS

  -e, --env NAME=VALUE       a variable of the program's environment; may be given several times
  -t, --transport WORD       stdio for a program, http for an address
  -H, --header "NAME: TEXT"  an HTTP header for the address; may be given several times
  --url ADDRESS              the address of a server that runs already
  -s, --scope user           servers are added to your own configuration file
"""
_LONG = {"-e": "--env", "-t": "--transport", "-H": "--header", "-s": "--scope"}
_VALUED = ("--env", "--transport", "--header", "--url", "--scope")
_REFUSED = {
    "--bearer-token-env-var": 'give the token with --header "Authorization: Bearer TOKEN"',
    "--client-id": "servers that need a sign-in in the browser are not supported; use --header with a token",
    "--client-secret": "servers that need a sign-in in the browser are not supported; use --header with a token",
    "--callback-port": "servers that need a sign-in in the browser are not supported; use --header with a token",
    "--command": "write the program after the name: hames mcp add NAME PROGRAM ARGUMENTS",
    "--args": "write arguments after the program: hames mcp add NAME PROGRAM ARGUMENTS",
    "--type": "it is called --transport",
}
_SCOPES = {
    "project": "a project's servers are in its own .mcp.json, which is used after `hames trust`",
    "local": "servers are added to your own configuration file, for every project: leave out --scope, or use"
    " --scope user",
}


def read_add(words: list[str]) -> tuple[str, McpServer]:
    """The server's name and what is known of it. Raises `InvalidCommand`."""
    given = _Given(list(words))
    name = given.word()
    if name is None:
        raise InvalidCommand("name the server and the program to start: hames mcp add NAME PROGRAM ARGUMENTS")
    if not NAME.fullmatch(name):
        raise InvalidCommand(f"{name!r} is not a valid server name: use letters, digits, - and _")
    program = given.rest()
    url = given.one("--url")
    if not url and program and program[0].startswith(("http://", "https://")):
        url, *program = program
    transport = _transport(given.one("--transport"), url)
    if transport == "http" and program and not url:
        raise InvalidCommand(f"{program[0]!r} is not an address; addresses begin with http:// or https://")
    if bool(url) == bool(program):
        raise InvalidCommand(
            f"{program[0]!r} is one argument too many: a server has either a program or an address"
            if url
            else f"the address is missing: hames mcp add {name} --transport http ADDRESS"
            if transport == "http"
            else f"name a program to start, or an address: hames mcp add {name} PROGRAM ARGUMENTS"
        )
    if url and not url.startswith(("http://", "https://")):
        raise InvalidCommand(f"{url!r} is not an address; addresses begin with http:// or https://")
    env, headers = given.pairs("--env", "=", "NAME=VALUE"), given.pairs("--header", ":", '"NAME: TEXT"')
    if url and env:
        raise InvalidCommand("--env is only for programs; for an address use --header")
    if headers and not url:
        raise InvalidCommand("--header is only for addresses; for a program use --env")
    if (scope := given.one("--scope")) not in ("", "user"):
        raise InvalidCommand(f"unknown scope {scope!r}: {_SCOPES.get(scope, _SCOPES['local'])}")
    command, *arguments = program or [""]
    return name, McpServer(command=command, args=tuple(arguments), env=env, url=url, headers=headers)


def _transport(word: str, url: str) -> str:
    kind = "http" if word in ("http", "streamable-http", "streamable_http", "streamableHttp") else word
    if kind == "sse":
        raise InvalidCommand("the transport sse is not supported; most servers also offer http (streamable HTTP)")
    if kind not in ("", "stdio", "http"):
        raise InvalidCommand(f"unknown transport {word!r}; use stdio for a program, http for an address")
    if kind == "stdio" and url:
        raise InvalidCommand("the transport stdio is for a program, and an address was given; use --transport http")
    return kind


class _Given:
    """Options are taken out wherever they stand before the program."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._found: dict[str, list[str]] = {}

    def word(self) -> str | None:
        """The next word that is no option and no option's value. None: there is none, or the program begins."""
        while self._words and self._words[0] != "--":
            word = self._words.pop(0)
            if not word.startswith("-") or word == "-":
                return word
            self._option(word)
        return None

    def rest(self) -> list[str]:
        """The program with its arguments."""
        first = self.word()
        if first is None:
            return self._words[1:]
        if first.startswith(("http://", "https://")):  # an address has no arguments: options may follow it
            more = self.word()
            return [first, *([] if more is None else [more]), *self._words]
        return [first, *self._words]  # a `--` from here on is the program's own

    def _option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        name = _LONG.get(name, name)
        if name in _REFUSED:
            raise InvalidCommand(f"hames mcp add has no option {name!r}: {_REFUSED[name]}")
        if name not in _VALUED:
            raise InvalidCommand(
                f"hames mcp add has no option {word!r}. If it belongs to the program, put -- before the program"
            )
        if not equals:
            if not self._words or self._words[0] == "--":
                raise InvalidCommand(f"{word} needs a value")
            value = self._words.pop(0)
        self._found.setdefault(name, []).append(value)

    def one(self, name: str) -> str:
        values = self._found.get(name, [])
        if len(values) > 1:
            raise InvalidCommand(f"{name} was given {len(values)} times")
        return values[0] if values else ""

    def pairs(self, name: str, between: str, form: str) -> dict[str, str]:
        found: dict[str, str] = {}
        strip: Callable[[str], str] = str.strip if between == ":" else str
        for value in self._found.get(name, []):
            key, there, text = value.partition(between)
            if not there or not key.strip():
                raise InvalidCommand(f"write {name} as {form}, not {value!r}")
            found[strip(key)] = strip(text)
        return found
