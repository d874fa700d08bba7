"""Which commands need no question: those that only read inside the workspace, as far as anyone can see.

The line is parsed with bash's own grammar, and only plain words survive: what the
shell would expand, redirect, define or evaluate is asked about without a second
look. Trust removes the question and never the sandbox.
"""

import os
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hames.ports import Verdict
from hames.sandbox.calls import Doubt, operands
from hames.sandbox.programs import (
    NOT_SECRET,
    SECRET_DIRECTORIES,
    SECRET_ENDINGS,
    SECRET_NAMES,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES = 16 * 1024
MAX_COMMANDS = 20

_JOINTS = frozenset({"&&", "||", ";", "|"})
_SPECIAL = re.compile(r"[$`~*?\[\]{}\\#!^]|^=")
_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"")
_UNQUOTED = re.compile(r"[$`~*?\[\]{}\\#!^()<>]")
_CHARACTERS = {
    "<": "it is more than plain commands: a redirect",
    ">": "it is more than plain commands: a redirect",
    "$": "it is more than plain commands: an expansion",
    "`": "it is more than plain commands: an expansion",
    "*": "it is more than plain commands: a file name pattern",
    "?": "it is more than plain commands: a file name pattern",
    "(": "it is more than plain commands: a group",
    "{": "it is more than plain commands: a group",
}
_KINDS = {
    "command_substitution": "a command inside a command",
    "simple_expansion": "a variable",
    "expansion": "a variable",
    "variable_assignment": "a variable is set",
}
_QUOTED_SPECIAL = re.compile(r"[$`!]|\\(?![A-Za-z0-9.])")


class _Simple:
    """One simple command: its words, the operator before it, and whether it stands in a pipeline."""

    def __init__(self, words: list[str], *, joint: str, piped: bool, fed: bool) -> None:
        self.words = words
        self.joint = joint
        self.piped = piped
        self.fed = fed


class ShellTrust:
    """Implements `ports.Trust` for `bash -c`, run with a fixed PATH, no rc files and an allow-listed environment."""

    def __init__(self) -> None:
        self._parser: Parser | None = None

    def judge(self, command: str, *, cwd: str, workspace: str) -> Verdict:
        try:
            self._examine(command, os.path.realpath(cwd), os.path.realpath(workspace))
        except Doubt as doubt:
            return Verdict(trusted=False, reason=str(doubt))
        except Exception as error:  # a classifier that fails must not be the reason why something runs
            return Verdict(trusted=False, reason=f"the command could not be judged ({type(error).__name__})")
        return Verdict(trusted=True)

    def _examine(self, command: str, cwd: str, workspace: str) -> None:
        source = _plain(command)
        if not _inside(cwd, workspace):
            raise Doubt(f"{cwd!r} is outside the workspace")
        _lexed(command)
        commands = _commands(self._parse(source), source)
        places = {cwd}
        for simple in commands:
            name, *words = simple.words
            if name == "cd":
                there = {_entered(words, place, workspace) for place in places}
                if simple.piped:
                    raise Doubt("'cd' in a pipeline")
                # Unless the next command needs it to have worked, it may not have.
                places = there if _needed(commands, simple) else places | there
                continue
            paths = operands(name, words, fed=simple.fed)
            for place in places:
                for path in paths.names:
                    _check(path, place, workspace, files_only=paths.files_only)

    def _parse(self, source: bytes) -> "Node":
        if self._parser is None:
            import tree_sitter_bash
            from tree_sitter import Language, Parser

            self._parser = Parser(Language(tree_sitter_bash.language()))
        root = self._parser.parse(source).root_node
        if root.has_error or root.type != "program":
            raise Doubt("it is not a plain command line")
        return root


def _plain(command: str) -> bytes:
    if len(command) > MAX_BYTES:
        raise Doubt(f"it is longer than {MAX_BYTES // 1024} KiB")
    if not (command.isascii() and command.isprintable()) and not all(map(_ordinary, command)):
        raise Doubt("it contains a line break or an invisible character")
    return command.encode()


def _lexed(command: str) -> None:
    """A look that costs next to nothing, before the parser: some lines that are refused anyway take it a second."""
    unquoted = _QUOTES.sub("_", command)
    found = _UNQUOTED.search(unquoted)
    if found is not None:
        raise Doubt(_CHARACTERS.get(found[0], f"it contains {found[0]!r} outside quotes"))
    if len(re.findall(r"[;|&]+", unquoted)) > MAX_COMMANDS:
        raise Doubt(f"it consists of more than {MAX_COMMANDS} commands")


def _ordinary(character: str) -> bool:
    return " " <= character <= "~" or (character > "\x7f" and unicodedata.category(character)[0] in "LNPS")


def _commands(root: "Node", source: bytes) -> list[_Simple]:
    """The simple commands in the order the shell reads them. Raises `Doubt` for every other construct."""
    commands = list(_walk(root, source))
    if not commands:
        raise Doubt("there is no command in it")
    if len(commands) > MAX_COMMANDS:
        raise Doubt(f"it consists of more than {MAX_COMMANDS} commands")
    return commands


def _walk(node: "Node", source: bytes, *, joint: str = "", piped: bool = False, fed: bool = False) -> Iterator[_Simple]:
    match node.type:
        case "command":
            yield _Simple(_words(node, source), joint=joint, piped=piped, fed=fed)
        case "program" | "list" | "pipeline":
            inner = piped or node.type == "pipeline"
            before = joint
            for child in _tight(node, source):
                if not child.is_named:
                    if child.type not in _JOINTS:
                        raise Doubt(f"it uses {child.type!r}")
                    before = child.type
                    continue
                yield from _walk(child, source, joint=before, piped=inner, fed=fed or before == "|")
        case other:
            raise Doubt(_beyond(other))


def _beyond(kind: str) -> str:
    return f"it is more than plain commands: {_KINDS.get(kind, kind.replace('_', ' '))}"


def _tight(node: "Node", source: bytes) -> list["Node"]:
    """The children, if nothing but blanks lies between them: what the parser skipped, the shell may not."""
    children = list(node.children)
    edges = [(node.start_byte, node.start_byte), *((c.start_byte, c.end_byte) for c in children)]
    edges.append((node.end_byte, node.end_byte))
    for (_, end), (start, _) in pairwise(edges):
        if source[end:start].strip(b" "):
            raise Doubt("it is not a plain command line")
    return children


def _words(node: "Node", source: bytes) -> list[str]:
    first, *rest = _tight(node, source)
    if first.type != "command_name" or len(first.children) != 1 or first.children[0].type != "word":
        raise Doubt("it does not start with a plain program name")
    name = _literal(first.children[0], source)
    if name != "cd" and not name.isascii():
        raise Doubt(f"{name!r} is not known to be harmless")
    return [name, *(_literal(child, source) for child in rest)]


def _literal(node: "Node", source: bytes) -> str:
    """What the shell will make of a word, if that can be read off it."""
    text = source[node.start_byte : node.end_byte].decode()
    match node.type:
        case "word" | "number":
            if node.child_count or _SPECIAL.search(text):
                raise Doubt(f"the shell would expand {text!r}")
            return text
        case "raw_string":
            if len(text) < 2 or "'" in text[1:-1]:
                raise Doubt("it is not a plain command line")
            return text[1:-1]
        case "string":
            if any(child.type not in ('"', "string_content") for child in node.children):
                raise Doubt(f"the shell would expand {text}")
            if '"' in text[1:-1] or _QUOTED_SPECIAL.search(text[1:-1]):
                raise Doubt(f"the shell would expand {text}")
            return text[1:-1]
        case "concatenation":
            children = list(node.children)
            if any(one.end_byte != two.start_byte for one, two in pairwise(children)):
                raise Doubt("it is not a plain command line")
            return "".join(_literal(child, source) for child in children)
        case other:
            raise Doubt(_beyond(other))


def _needed(commands: list[_Simple], simple: _Simple) -> bool:
    """Whether everything after this command runs only if it worked: all that follows is joined by `&&`."""
    after = commands[commands.index(simple) + 1 :]
    return all(later.joint == "&&" or later.fed for later in after)


def _entered(words: list[str], place: str, workspace: str) -> str:
    """Where `cd` leads. The shell counts `..` in names, the kernel in directories: where they differ, we ask."""
    if len(words) != 1 or not words[0] or words[0].startswith("-"):
        raise Doubt("'cd' needs one directory")
    target = os.path.normpath(Path(place, words[0]))
    if target != os.path.realpath(Path(place, words[0])):
        raise Doubt(f"{words[0]!r} goes through a link")
    _check(words[0], place, workspace, files_only=False)
    return target


def _check(path: str, place: str, workspace: str, *, files_only: bool) -> None:
    if path == "-":
        return
    if not path:
        raise Doubt("an empty file name")
    real = os.path.realpath(Path(place, path))
    if not _inside(real, workspace):
        raise Doubt(f"{path!r} is outside the workspace")
    for part in (*path.split("/"), *os.path.relpath(real, workspace).split("/")):
        if is_secret(part):
            raise Doubt(f"{path!r} looks like a secret")
    if files_only and Path(real).is_dir():
        raise Doubt(f"{path!r} is a directory")


def _inside(path: str, workspace: str) -> bool:
    return path == workspace or path.startswith(workspace.rstrip("/") + "/")


def is_secret(name: str) -> bool:
    """Whether a file of this name usually holds something that is not for everyone.

    >>> is_secret(".env"), is_secret(".env.local"), is_secret(".env.example"), is_secret("id_rsa.pub")
    (True, True, False, False)
    """
    folded = name.casefold()
    if folded.endswith(NOT_SECRET):
        return False
    return (
        folded in SECRET_NAMES
        or folded in SECRET_DIRECTORIES
        or folded.endswith(SECRET_ENDINGS)
        or folded.startswith(".env.")
        or (folded.startswith("service-account") and folded.endswith(".json"))
    )
