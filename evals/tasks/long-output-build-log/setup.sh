python3 - <<'EOF'
import random
random.seed(7)
names = [f"lib/{a}{b}.o" for a in ("net", "disk", "ui", "audio", "crypt") for b in range(300)]
lines = [f"[{n}/9000] building {random.choice(names)} -O2 -Wall -I include -D LEVEL={n % 9}" for n in range(5200)]
lines[4711:4711] = ["[4711/9000] building lib/crypt117.o -O2", "crypt117.c:88: note: the error below is fatal",
                    "FAILED: lib/crypt117.o (exit code 1)"]
for n in range(5000):
    name = random.choice(names)
    lines.append(f"FAILED: {name} (needs {random.choice(names)}, which was not built)")
    lines.append(f"error: cannot link {name}")
open("build.log", "w").write("\n".join(lines) + "\n")
EOF
