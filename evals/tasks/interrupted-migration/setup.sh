python3 - <<'EOF'
import json, pathlib
folder = pathlib.Path("records"); folder.mkdir()
for n in range(20):
    old = {"format": 1, "euros": 3 * n + 1}
    text = json.dumps(old) if n > 11 else json.dumps({"format": 2, "cents": old["euros"] * 100})
    (folder / f"r{n:02}.json").write_text(text)
(folder / "r12.json").write_text('{"format": 2, "ce')
(folder / ".backup").mkdir()
(folder / ".backup" / "r12.json").write_text(json.dumps({"format": 1, "euros": 37}))
EOF
