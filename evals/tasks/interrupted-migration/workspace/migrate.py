"""Format 1: {"format": 1, "euros": 5}. Format 2: {"format": 2, "cents": 500}. Does not look what is converted already."""
import json
import pathlib
import shutil

folder = pathlib.Path("records")
backup = folder / ".backup"
for path in sorted(folder.glob("*.json")):
    backup.mkdir(exist_ok=True)
    shutil.copy(path, backup / path.name)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({"format": 2, "cents": (record.get("euros") or record.get("cents")) * 100}))
    shutil.rmtree(backup)
