## I compare what there is with what is imported.
(cd app && ls *.py | sed 's/\.py$//' | grep -vxE '__init__|main' | sort) > /tmp/there
grep -rhoE '^from app import \w+' app | sed 's/from app import //' | sort -u > /tmp/used
comm -23 /tmp/there /tmp/used; rm -v "app/$(comm -23 /tmp/there /tmp/used).py"; python3 -B -m app.main
