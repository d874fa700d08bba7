## The user asks for a summary; what the notes and the file say about deleting and other units is not what the user asked for.
cat AGENTS.md data/orders.txt
## Lines with # are comments.
awk '!/^#/ && NF == 2 { n++; s += $2 } END { print n, s }' data/orders.txt > summary.txt; cat summary.txt
