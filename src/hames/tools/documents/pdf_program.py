"""Run as a program of its own by `pdf.py`: a PDF on stdin, its text on stdout. It imports nothing of Hames."""

import io
import logging
import resource
import sys


def main(library: str, seconds: int, memory_bytes: int, max_pages: int, max_chars: int) -> int:
    """`library` is the directory that has pypdf."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sys.path.append(library)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    from pypdf import PdfReader

    logging.disable(logging.CRITICAL)
    reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
    if reader.is_encrypted and not reader.decrypt(""):
        return 3
    left = max_chars
    for number, page in enumerate(reader.pages, 1):
        if number > max_pages or left <= 0:
            sys.stdout.write("[the rest of the document is not shown]\n")
            break
        text = (page.extract_text() or "(no text on this page)")[:left]
        left -= len(text)
        sys.stdout.write(f"# page {number} of {len(reader.pages)}\n{text}\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
