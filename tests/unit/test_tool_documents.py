"""Notebooks, PDF files, and files outside the workspace."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from toolbench import workshop


def pdf(text: str) -> bytes:
    """A PDF of one page, by hand."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, one in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    start = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start
    return bytes(out)


async def test_a_pdf_is_read_as_text(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "a.pdf").write_bytes(pdf("Hello from a page"))
        done = await shop.do("read", path="a.pdf")
        assert not done.failed, done.text
        assert "# page 1 of 1" in done.text
        assert "Hello from a page" in done.text
        (shop.root / "b.pdf").write_bytes(b"%PDF-1.4\nnothing of the kind")
        assert "cannot be read" in (await shop.do("read", path="b.pdf")).text


async def test_a_notebook_is_read_as_cells(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "2", "image/png": "AAAA"}},
                {"output_type": "display_data", "data": {"image/png": "AAAA"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no"},
            ],
        },
    ]
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "n.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
        text = (await shop.do("read", path="n.ipynb")).text
        assert "# cell 1 (markdown)" in text
        assert "print(1)" in text
        assert "# output of cell 2" in text
        assert "ValueError: no" in text
        assert "[image/png]" in text
        assert "AAAA" not in text
        assert (await shop.do("write", path="n.ipynb", content="{}")).failed  # its own text was not shown
        (shop.root / "m.ipynb").write_text('{"not": "a notebook"}')
        assert '{"not"' in (await shop.do("read", path="m.ipynb")).text


async def test_a_readable_directory_is_read_and_not_written(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "code.py").write_text("answer = 42\n")
    (library / "out").symlink_to("/etc/hostname")
    async with workshop(tmp_path / "w") as shop:
        refused = await shop.do("read", path=str(library / "code.py"))
        assert refused.failed
        assert "extra_read" in refused.text
        shop.place = replace(shop.place, readable=(str(library),))
        assert "answer = 42" in (await shop.do("read", path=str(library / "code.py"))).text
        assert "code.py" in (await shop.do("list", path=str(library))).text
        assert "answer" in (await shop.do("grep", pattern="answer", path=str(library))).text
        assert (await shop.do("read", path=str(library / "out"))).failed  # no way out of it
        assert (await shop.do("read", path=f"{library}/../w2")).failed
        for tool, more in (("write", {"content": "x"}), ("edit", {"old_string": "42", "new_string": "43"})):
            assert "outside the workspace" in (await shop.do(tool, path=str(library / "code.py"), **more)).text
        assert (library / "code.py").read_text() == "answer = 42\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "~/x", "../x"])
async def test_everything_else_stays_outside(tmp_path: Path, path: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert (await shop.do("read", path=path)).failed
