## Where is it a key?
grep -rhE 'max_conns' config | sort | uniq -c | sort -rn | head -5
## Only at the beginning of a line, before an equals sign, in .ini files.
find config -name '*.ini' -exec sed -i -E 's/^([[:space:]]*)max_conns([[:space:]]*=)/\1max_connections\2/' {} +
grep -rhcE '^ *max_connections' config | sort | uniq -c
