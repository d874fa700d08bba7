python3 - <<'EOF'
import pathlib
for n in range(1200):
    folder = pathlib.Path(f"config/region{n % 12}/site{n // 12:03}")
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"[site{n}]", f"port = {8000 + n}", "# see max_conns in the manual"]
    if n % 31 == 4:
        lines.append(f"max_conns = {n % 50 + 1}")
    if n % 97 == 5:
        lines.append("  max_conns=7")
    if n % 50 == 3:
        lines.append("alias = max_conns")
    (folder / "app.ini").write_text("\n".join(lines) + "\n")
(pathlib.Path("config") / "max_conns.md").write_text("max_conns = how many connections\n")
EOF
