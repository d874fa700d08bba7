## How are they called?
grep -rhoE 'copy_range\(rows.*' services | sort | uniq -c | sort -rn | head
## The one whose start is above its end.
grep -rnE 'copy_range\(rows' services | python3 -c "
import re, sys
for line in sys.stdin:
    low, high = map(int, re.findall(r', (\d+)', line))
    if low > high:
        print(line, end='')
        path = line.split(':')[0]
        text = open(path).read()
        open(path, 'w').write(text.replace(f'{low}, {high})', f'{high}, {low})'))
"
