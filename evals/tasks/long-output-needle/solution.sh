## The whole output is too long to read.
python3 simulate.py
## So I filter it.
python3 simulate.py | grep 'status=599' | tee /dev/stderr | sed -E 's/.*request=([0-9a-f]+).*/\1/' > answer.txt
