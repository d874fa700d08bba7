## I run it as it is.
python3 download.py
## The bar hides it.
python3 download.py | tr '\r' '\n' | sed -n 's/^warning: //p' > answer.txt; cat answer.txt
