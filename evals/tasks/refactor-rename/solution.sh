## Where is it?
grep -rnw calc .; grep -rn test_calc .
## I replace whole words only.
grep -rlwE 'calc|test_calc' . | xargs sed -i -E 's/\bcalc\b/total_price/g; s/\btest_calc\b/test_total_price/g'
python3 -m unittest -q tests.test_prices
