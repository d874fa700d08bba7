fail() { echo "$1"; exit 1; }
rm -rf original && mkdir original && (cd original && bash "${0%/*}/setup.sh") || fail "no original"
(cd original && find config -name '*.ini' -exec sed -i -E 's/^([[:space:]]*)max_conns([[:space:]]*=)/\1max_connections\2/' {} +)
diff -r original/config config > difference.txt || fail "not as wanted: $(head -3 difference.txt | tr '\n' ' ')"
