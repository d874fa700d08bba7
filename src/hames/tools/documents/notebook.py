"""A Jupyter notebook as text: its cells in order, with what they printed."""

import msgspec

from hames.domain.json import Json

OUTPUT_CHARS = 4_000
"""Of one cell: a plot as text or a long table would hide the code."""


def notebook_text(content: bytes) -> str | None:
    """None for what is no notebook."""
    try:
        notebook = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        return None
    return "\n".join(_cell(number, cell) for number, cell in enumerate(cells, 1) if isinstance(cell, dict))


def _cell(number: int, cell: dict[str, Json]) -> str:
    kind = cell.get("cell_type")
    parts = [f"# cell {number} ({kind if isinstance(kind, str) else 'unknown'})", _text(cell.get("source"))]
    outputs = cell.get("outputs")
    printed = "\n".join(filter(None, map(_output, outputs if isinstance(outputs, list) else [])))
    if printed:
        more = f"\n[… {len(printed) - OUTPUT_CHARS:,} more characters]" if len(printed) > OUTPUT_CHARS else ""
        parts += [f"# output of cell {number}", printed[:OUTPUT_CHARS] + more]
    return "\n".join(parts) + "\n"


def _output(output: Json) -> str:
    if not isinstance(output, dict):
        return ""
    if output.get("output_type") == "error":
        return f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data")
    if isinstance(data, dict):
        if "text/plain" in data:
            return _text(data["text/plain"]).rstrip("\n")
        return f"[{', '.join(map(str, data))}]"
    return _text(output.get("text")).rstrip("\n")


def _text(source: Json) -> str:
    """Notebooks keep a text as one string or as a list of lines."""
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""
