## How long is it?
wc build.log; cat build.log
## The first failure in the file counts.
grep -n '^FAILED' build.log | head -2
grep -m1 '^FAILED' build.log | sed -E 's/FAILED: ([^ ]+).*/\1/' > answer.txt
