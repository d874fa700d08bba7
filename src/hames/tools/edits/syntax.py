"""What a parser says of a file before and after a change: Python, JSON and TOML by Python's own, others by tree-sitter.

A parser may not know the newest syntax of its language, so only what a change breaks is worth a word: where the file
had an error before, nothing is said.
"""

import threading
import time
from collections.abc import Callable
from importlib import import_module

from hames.domain.value import Value

MAX_CHARS = 500_000
PYTHON_CHARS = 250_000
PYTHON_NESTING = 150
"""The compiler's own parser works on the stack."""
PARSE_SECONDS = 1.0
_one_at_a_time = threading.Lock()
"""Python 3.11 counts the depth of all its threads' parsing in one number, and raises SystemError when two mix."""
NAMED_CHARS = 60

GRAMMARS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), ("tree_sitter_javascript", "language")),
    **dict.fromkeys(("ts", "mts", "cts"), ("tree_sitter_typescript", "language_typescript")),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rs": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    **dict.fromkeys(("c", "h"), ("tree_sitter_c", "language")),
    **dict.fromkeys(("cc", "cpp", "cxx", "hpp", "hh", "hxx"), ("tree_sitter_cpp", "language")),
    **dict.fromkeys(("sh", "bash"), ("tree_sitter_bash", "language")),
}
"""By the file's extension: the package that has the grammar, and its function."""


class Checked(Value):
    words: str = ""
    """What is wrong now and was not before."""

    @property
    def broke_it(self) -> bool:
        return bool(self.words)


def check_syntax(name: str, before: str, after: str) -> Checked:
    """`before` is empty for a new file. It takes about a second at most, and raises nothing."""
    find_error = _parser(name)
    if find_error is None or max(len(before), len(after)) > MAX_CHARS:
        return Checked()
    words = find_error(after)
    return Checked(words=words) if words and not find_error(before) else Checked()


def _parser(name: str) -> Callable[[str], str] | None:
    extension = name.rpartition(".")[2].lower()
    if extension in ("py", "pyi"):
        return _python_error
    if extension == "json":
        return _json_error
    if extension == "toml":
        return _toml_error
    if extension in GRAMMARS:
        return lambda text: _tree_error(extension, text)
    return None


def _python_error(text: str) -> str:
    if len(text) > PYTHON_CHARS or _nesting(text) > PYTHON_NESTING:
        return ""
    import ast
    import warnings

    try:
        with _one_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return f"syntax error in line {error.lineno or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError, SystemError):
        return ""
    return ""


def _nesting(text: str) -> int:
    deepest = depth = 0
    for char in text:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth -= 1
    return deepest


def _json_error(text: str) -> str:
    import json

    if not text.strip():
        return ""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"syntax error in line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError):
        return ""
    return ""


def _toml_error(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return f"syntax error: {error}"
    except (ValueError, RecursionError):
        return ""
    return ""


def _tree_error(extension: str, text: str) -> str:
    """Nothing where the grammar is not installed, or takes too long."""
    try:
        from tree_sitter import Language, Node, Parser, Tree

        package, function = GRAMMARS[extension]
        capsule: object = getattr(import_module(package), function)()
        language = Language(capsule)
    except (ImportError, AttributeError, ValueError):
        return ""
    content = text.encode(errors="replace")
    deadline = time.monotonic() + PARSE_SECONDS

    def read(offset: int, _: object) -> bytes:
        return content[offset : offset + 65536] if time.monotonic() < deadline else b""

    tree: Tree = Parser(language).parse(read, encoding="utf8")
    if time.monotonic() >= deadline or not tree.root_node.has_error:
        return ""
    found: Node | None = tree.root_node
    while found is not None and not (found.is_error or found.is_missing):
        found = next((child for child in found.children if child.has_error or child.is_missing), None)
    if found is None:
        return "syntax error"
    if found.is_missing:
        return f"syntax error in line {found.start_point.row + 1}: {found.type!r} is missing"
    near = content[found.start_byte :].decode(errors="replace").split("\n", 1)[0][:NAMED_CHARS]
    return f"syntax error in line {found.start_point.row + 1}: {near!r} is not understood"
