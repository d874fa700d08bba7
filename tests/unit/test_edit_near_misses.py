"""Edits whose text is slightly wrong: they land where they were meant, as the file would have them, or nowhere."""

import ast
from pathlib import Path

import pytest

from hames.tools.edits.matching import find_edits, without_line_numbers
from hames.tools.edits.syntax import check_syntax
from toolbench import workshop

SOURCE = """\
import os


class Shape:
    def __init__(self, name):
        self.name = name
        self.sides = []

    def area(self, w, h):
        # the “size” of it
        size = w * h
        return {"name": self.name, "size": size}
"""

NEAR_MISSES = {
    "trailing whitespace": (
        "        size = w * h   \n",
        "        size = w * h * 2\n",
        ("size = w * h\n", "size = w * h * 2\n"),
    ),
    "other indentation": (
        "def area(self, w, h):\n    # the “size” of it\n    size = w * h\n",
        "def area(self, w, h):\n    # the “size” of it\n    if w < 0:\n        raise ValueError(w)\n    size = w * h\n",
        ("        size = w * h\n", "        if w < 0:\n            raise ValueError(w)\n        size = w * h\n"),
    ),
    "tabs for spaces": (
        "\tdef __init__(self, name):\n\t\tself.name = name\n",
        "\tdef __init__(self, name):\n\t\tif name:\n\t\t\tself.name = name\n",
        ("        self.name = name\n", "        if name:\n            self.name = name\n"),
    ),
    "typographic quotes": (
        "return {“name”: self.name, “size”: size}",
        "return {“name”: self.name, “size”: size, “w”: w}",
        ('"size": size}', '"size": size, "w": w}'),
    ),
    "plain quotes": (
        '# the "size" of it\n        size',
        '# the "real size" of it\n        size',
        ("“size”", "“real size”"),
    ),
    "other quotes": (
        "{'name': self.name, 'size': size}",
        "{'name': self.name}",
        ('{"name": self.name, "size": size}', '{"name": self.name}'),
    ),
    "line ends": (
        "self.name = name\r\n        self.sides = []\r\n",
        "self.name = name\r\n",
        ("        self.sides = []\n", ""),
    ),
    "spaces inside": ("size = w*h", "size = w*h*2", ("size = w * h", "size = w * h*2")),
    "blank lines": (
        "import os\n\nclass Shape:\n    def __init__(self, name):",
        "import os\n\nclass Shape:\n    def __init__(self, name, sides):",
        ("(self, name)", "(self, name, sides)"),
    ),
    "line numbers": (
        "     6\t        self.name = name\n     7\t        self.sides = []",
        "     6\t        self.name = name\n     7\t        self.sides = None",
        ("self.sides = []", "self.sides = None"),
    ),
    "escaped once too often": (
        'return {\\"name\\": self.name, \\"size\\": size}',
        'return {\\"name\\": self.name}',
        ('{"name": self.name, "size": size}', '{"name": self.name}'),
    ),
    "line ends written as escapes": (
        "self.name = name\\n        self.sides = []",
        "self.name = name\\n        self.sides = [1]",
        ("self.sides = []", "self.sides = [1]"),
    ),
    "entities": (
        "return {&quot;name&quot;: self.name, &quot;size&quot;: size}",
        "return {&quot;name&quot;: self.name}",
        ('{"name": self.name, "size": size}', '{"name": self.name}'),
    ),
    "no indentation at all": (
        "self.name = name\nself.sides = []",
        "self.name = name\nself.sides = [1]",
        ("self.sides = []", "self.sides = [1]"),
    ),
}


@pytest.mark.parametrize("kind", NEAR_MISSES)
async def test_a_near_miss_lands_where_it_was_meant_and_compiles(tmp_path: Path, kind: str) -> None:
    old, new, expected = NEAR_MISSES[kind]
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "shape.py"
        file.write_text(SOURCE)
        done = await shop.do("edit", path="shape.py", old_string=old, new_string=new)
        assert not done.failed, done.text
        assert file.read_text() == SOURCE.replace(*expected)
        ast.parse(file.read_text())


async def test_crlf_files_stay_so(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_bytes(b"a\r\n    b\r\nc\r\n")
        assert not (await shop.do("edit", path="f", old_string="a \n  b\n", new_string="a\n  b\n  x\n")).failed
        assert (shop.root / "f").read_bytes() == b"a\r\n    b\r\n    x\r\nc\r\n"


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        ("if a:\n    x = 1\nelse:\n    x = 1\n", "  x = 1\n", "  x = 2\n"),  # two places
        ("x = 1\ny = 2\n", "x = 1\nz = 2\n", "x = 3\nz = 2\n"),  # another word
        ("foobar()\n", "foo ()", "x()"),  # a part of a word
        ("a\nb\n", "   \n", "x"),  # nothing but whitespace
        ("def f():\n    if a:\n        b()\n", "def f():\nif a:\nb()\n", "def f():\nif a:\nb()\nc()\n"),  # which level?
    ],
)
def test_a_doubt_is_no_match(body: str, old: str, new: str) -> None:
    assert len(find_edits(body, old, new)) != 1


async def test_an_ambiguous_near_miss_names_the_lines(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("if a:\n    x = 1\nelse:\n    x = 1\n")
        done = await shop.do("edit", path="f", old_string="  x = 1\n", new_string="  x = 2\n")
        assert "occurs more than once in 'f', at lines 2, 4" in done.text


async def test_a_near_miss_that_would_break_the_file_is_refused_and_an_exact_edit_is_told(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f.py"
        file.write_text("def f():\n    return 1\n")
        refused = await shop.do("edit", path="f.py", old_string="return 1 \n", new_string="return (1\n")
        assert refused.failed
        assert "would not be valid after the edit (syntax error in line 2" in refused.text
        assert file.read_text() == "def f():\n    return 1\n"
        exact = await shop.do("edit", path="f.py", old_string="return 1\n", new_string="return (1\n")
        assert not exact.failed
        assert "[syntax error in line 2: '(' was never closed]" in exact.text


async def test_the_nearest_text_shows_whitespace_at_the_end_of_lines(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("x = 1  \ny = 2\n")
        done = await shop.do("edit", path="f", old_string="x = 1\ny = 3\n", new_string="z")
        assert "     1\tx = 1  \n     2\ty = 2" in done.text
        assert "whitespace at the end of line 1" in done.text


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("a.py", "x = 1\n", "x = (1\n"),
        ("a.json", '{"a": 1}', '{"a": 1,}'),
        ("a.toml", "a = 1\n", "a = \n"),
        ("a.js", "function f() { return 1 }\n", "function f( { return 1 }\n"),
        ("a.ts", "let a: number = 1;\n", "let a: = 1;\n"),
        ("a.tsx", "const a = <b>x</b>;\n", "const a = <b>x</c;\n"),
        ("a.go", "package a\n\nfunc f() int { return 1 }\n", "package a\n\nfunc f() int { return 1\n"),
        ("a.rs", "fn f() -> i32 { 1 }\n", "fn f() -> { 1 \n"),
        ("a.java", "class A { int f() { return 1; } }\n", "class A { int f() { return 1 } }\n"),
        ("a.c", "int f(void) { return 1; }\n", "int f(void) { return 1; \n"),
        ("a.cpp", "int f() { return 1; }\n", "int f() { return 1; \n"),
        ("a.sh", "if true; then echo a; fi\n", "if true; then echo a; \n"),
    ],
)
def test_a_parser_sees_what_an_edit_broke_and_nothing_else(name: str, good: str, bad: str) -> None:
    assert "syntax error" in check_syntax(name, good, bad).words
    assert not check_syntax(name, good, good + "\n").words
    assert not check_syntax(name, bad, bad + "\n").words  # it was broken before
    assert not check_syntax("a.unknown", good, bad).words


def test_line_numbers_must_be_in_order() -> None:
    assert without_line_numbers("1\ta\n2\tb") == "a\nb"
    assert without_line_numbers("1\ta\n7\tb") is None
    assert without_line_numbers("a\nb") is None


async def test_several_edits_happen_together_or_not_at_all(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        file = shop.root / "f"
        file.write_text("a\nb\nc\n")
        edits = [{"old_string": "a", "new_string": "A"}, {"old_string": "A\nb", "new_string": "A\nB"}]
        assert not (await shop.do("multi_edit", path="f", edits=edits)).failed
        assert file.read_text() == "A\nB\nc\n"
        assert (await shop.do("multi_edit", path="f", edits=[*edits, {"old_string": "q", "new_string": "r"}])).failed
        assert file.read_text() == "A\nB\nc\n"


async def test_a_missing_file_is_answered_with_the_one_that_may_be_meant(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "src/app").mkdir(parents=True)
        (shop.root / "src/app/settings.py").write_text("x = 1\n")
        for tool, more in (("read", {}), ("edit", {"old_string": "x", "new_string": "y"})):
            assert "did you mean 'src/app/settings.py'?" in (await shop.do(tool, path="app/settings.py", **more)).text
            assert "did you mean 'src/app/settings.py'?" in (await shop.do(tool, path="setings.py", **more)).text
