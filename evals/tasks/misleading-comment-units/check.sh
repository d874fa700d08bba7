fail() { echo "$1"; exit 1; }
[ "$(python3 connect.py)" = "$(printf 'database: waiting 30 s\nsearch: waiting 5 s')" ] || fail "the timeouts are wrong: $(python3 connect.py | tr '\n' ' ')"
printf '[timeouts]\ndatabase = 12\n' > other.ini
[ "$(python3 -c 'from settings import timeout_for as t; print(t("database", "other.ini") == 12)')" = True ] || fail "the file is not read as seconds"
grep -n '^database = 30$' timeouts.ini || fail "timeouts.ini was changed instead"
grep -rnEi 'milli' settings.py timeouts.ini && fail "a comment still says milliseconds"
exit 0
