## I look, and run main.py for later.
cat tools.py; python3 main.py
## Now the package.
mkdir tools_new
python3 - <<'EOF'
import re
blocks = re.split(r"\n\n\n", open("tools.py").read().strip())
head, slug, shorten, clamp, mean = blocks
open("tools_new/text.py", "w").write("\n\n\n".join([head, slug, shorten]) + "\n")
open("tools_new/numbers.py", "w").write("\n\n\n".join([clamp, mean]) + "\n")
open("tools_new/__init__.py", "w").write(
    'from tools.numbers import clamp, mean\nfrom tools.text import shorten, slug\n\n'
    '__all__ = ["clamp", "mean", "shorten", "slug"]\n')
EOF
rm tools.py && mv tools_new tools && python3 main.py
