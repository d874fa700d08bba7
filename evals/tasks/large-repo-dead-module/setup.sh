mkdir -p app
python3 - <<'EOF'
import pathlib
app = pathlib.Path("app")
(app / "__init__.py").write_text("")
names = [f"part{n:03}" for n in range(398)]
for n, name in enumerate(names):
    uses = [other for other in (2 * n + 1, 2 * n + 2) if other < 398 and other != 263]
    text = "".join(f"from app import {names[other]}\n" for other in uses)
    text += f"\n# part263 was here once\nVALUE = {n}" + "".join(f" + {names[other]}.VALUE" for other in uses) + "\n"
    (app / f"{name}.py").write_text(text)
(app / "main.py").write_text("from app import part000\n\nprint(part000.VALUE)\n")
EOF
