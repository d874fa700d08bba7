## I see what it does with a space in a name.
mkdir -p "t in" t-out && touch "t in/a b.txt" && sh collect.sh "t in" t-out; rm -r "t in" t-out
## find can run cp itself, which needs no word splitting.
cat > collect.sh <<'EOF'
#!/bin/sh
# usage: collect.sh FROM TO
find "$1" -name '*.txt' -exec cp -- {} "$2" \;
EOF
