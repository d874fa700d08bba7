"""Programs that only read, and how they may be called: what is allowed is listed, everything else is asked about.

A line of the table names programs, then what is special about them (fields of `ReadingProgram`; `1..2` is how many
operands they take; `pattern(e,regexp)` is `pattern` with its `pattern_options`), then their options: `-c=` needs a
value, `--color[=]` may have one in the same word. `+diff` adds the options of another program.

Left out on purpose: options that run a program (`rg --pre`, `sort --compress-program`), write (`sort -o`, `tree -o`),
take names from a file (`--files0-from`), follow links (`grep -R`, `ls -L`), or never end (`tail -f`).
"""

import re
from typing import Any, Literal, get_args

import msgspec

from hames.domain.value import Value

Operands = Literal["paths", "files", "pattern", "words", "none"]
"""`files` are paths that must not be directories (their entries would be opened); `pattern` is one word, then paths."""


class ReadingProgram(Value):
    """`options` are the allowed ones, with their dashes, each with `""`, `"="` or `"[=]"` as in the table."""

    operands: Operands = "paths"
    options: dict[str, str] = {}
    pattern_options: tuple[str, ...] = ()
    """With one of these there is no pattern among the operands."""
    least: int = 0
    most: int = 1000
    no_clusters: bool = False
    """Does not read `-ab 1` as `-a -b 1`: programs that read their words by hand do it differently, each in its way."""
    bare_number: bool = False
    """`-20` means twenty of something."""
    filters: bool = False
    """Waits for input when it is given no file."""
    names_only: bool = False
    """Shows names, sizes and dates, and no content."""
    star_safe: bool = False
    """A file name that begins with `-` does no harm as an option, so `*.txt` may stand among its words."""


def read_programs(table: str, operands: Operands = "paths") -> dict[str, ReadingProgram]:
    """A table as the module describes it. `operands`: of programs that do not say."""
    found: dict[str, ReadingProgram] = {}
    for entry in re.split(r"\n(?=\S)", table.strip()):
        names, _, usage = entry.partition(": ")
        fields: dict[str, Any] = {"operands": operands}
        options: dict[str, str] = {}
        for word in usage.split():
            name = word.removesuffix("[=]").removesuffix("=")
            takes = word.removeprefix(name)
            if word.startswith("+"):
                options |= found[word[1:]].options
            elif word.startswith("--"):
                options[name] = takes
            elif word.startswith("-"):
                options |= {f"-{letter}": takes for letter in name[1:]}
            elif ".." in word:
                least, _, most = word.partition("..")
                fields |= {"least": int(least or 0), "most": int(most or 1000)}
            elif word.startswith("pattern("):
                fields |= {"operands": "pattern", "pattern_options": word[8:-1].split(",")}
            else:
                fields |= {"operands": word} if word in get_args(Operands) else {word: True}
        program = msgspec.convert({**fields, "options": options}, ReadingProgram)
        found |= dict.fromkeys(names.split(), program)
    return found


PROGRAMS = read_programs("""
ls: names_only star_safe -1ABCFGNQRSUXabcdfghiklmnopqrstuvx -I= --all --almost-all --author --classify --color[=]
    --directory --escape --file-type --format= --full-time --group-directories-first --hide= --human-readable --ignore=
    --indicator-style= --inode --kibibytes --literal --no-group --numeric-uid-gid --quote-name --quoting-style=
    --recursive --reverse --si --size --sort= --time= --time-style=
cat: filters star_safe -AETbenstuv --number --number-nonblank --show-all --show-ends --show-nonprinting --show-tabs
    --squeeze-blank
head tail: filters star_safe bare_number -qvz -cn= --bytes= --lines= --quiet --silent --verbose --zero-terminated
nl: filters star_safe -p -bdfhilnsvw= --body-numbering= --footer-numbering= --header-numbering= --line-increment=
    --no-renumber --number-format= --number-separator= --number-width= --section-delimiter= --starting-line-number=
wc: filters star_safe -Lclmw --bytes --chars --lines --max-line-length --words
tac: filters star_safe -br -s= --before --regex --separator=
rev: filters star_safe
grep egrep fgrep: pattern(e,regexp) filters star_safe bare_number -EFGPHILTUZabchilnoqrsvwxyz -ABCDdem=
    --after-context= --basic-regexp --before-context= --binary-files= --byte-offset --color[=] --colour[=] --context=
    --count --exclude= --exclude-dir= --extended-regexp --files-with-matches --files-without-match --fixed-strings
    --ignore-case --include= --initial-tab --invert-match --label= --line-buffered --line-number --line-regexp
    --max-count= --no-filename --no-ignore-case --no-messages --null --null-data --only-matching --perl-regexp --quiet
    --recursive --regexp= --silent --text --with-filename --word-regexp
rg: pattern(e,regexp,files,type-list) -.0FHINPSUacinlopqsuvwx -ABCEMTdegjmrt= --after-context= --before-context=
    --case-sensitive --color= --colors= --column --context= --context-separator= --count --count-matches --crlf
    --encoding= --files --files-with-matches --files-without-match --fixed-strings --glob= --glob-case-insensitive
    --heading --hidden --iglob= --ignore-case --invert-match --json --line-number --line-regexp --max-columns=
    --max-count= --max-depth= --max-filesize= --multiline --multiline-dotall --no-config --no-filename --no-heading
    --no-ignore --no-ignore-parent --no-ignore-vcs --no-line-number --no-messages --null --null-data --one-file-system
    --only-matching --passthru --path-separator= --pcre2 --pretty --quiet --regexp= --replace= --smart-case --sort=
    --sortr= --stats --text --threads= --trim --type= --type-list --type-not= --unrestricted --vimgrep --with-filename
    --word-regexp
sort: filters -CMRVbcdfghimnrsuz -kt= --check[=] --dictionary-order --field-separator= --general-numeric-sort
    --human-numeric-sort --ignore-case --ignore-leading-blanks --ignore-nonprinting --key= --merge --month-sort
    --numeric-sort --reverse --sort= --stable --unique --version-sort --zero-terminated
uniq: ..1 filters -Dcdiuz -fsw= --all-repeated[=] --check-chars= --count --group[=] --ignore-case --repeated
    --skip-chars= --skip-fields= --unique --zero-terminated
cut: filters star_safe -nsz -bcdf= --bytes= --characters= --complement --delimiter= --fields= --only-delimited
    --output-delimiter= --zero-terminated
tr: words 1..2 -Ccdst --complement --delete --squeeze-repeats --truncate-set1
paste: filters star_safe -sz -d= --delimiters= --serial
join: 2..2 -iz -12aejotv= --check-order --header --ignore-case --nocheck-order --zero-terminated
comm: 2..2 -123z --check-order --nocheck-order --output-delimiter= --total --zero-terminated
diff: files 2..2 -BEHNTZabdeinpqstuwyc -CFILUWx= --brief --color[=] --context[=] --expand-tabs --horizon-lines=
    --ignore-all-space --ignore-blank-lines --ignore-case --ignore-matching-lines= --ignore-space-change
    --ignore-tab-expansion --ignore-trailing-space --initial-tab --label= --left-column --minimal --new-file
    --report-identical-files --show-c-function --show-function-line= --side-by-side --speed-large-files
    --strip-trailing-cr --suppress-common-lines --tabsize= --text --unified[=] --width=
cmp: files 2..2 -bls -in= --bytes= --ignore-initial= --print-bytes --quiet --silent --verbose
du: names_only star_safe -0Sabchkmsx -d= --all --apparent-size --block-size= --bytes --count-links --exclude=
    --human-readable --max-depth= --null --one-file-system --separate-dirs --si --summarize --threshold= --time[=]
    --total
df: names_only -HPTahikl --all --block-size= --human-readable --inodes --local --output[=] --portability --print-type
    --si --total
stat: 1.. names_only star_safe -Lft -c= --dereference --file-system --format= --printf= --terse
file: 1.. -LNbhikr --brief --dereference --keep-going --mime --mime-encoding --mime-type --no-dereference --no-pad
    --raw
basename: words 1.. star_safe -az -s= --multiple --suffix= --zero
dirname: words 1.. star_safe -z --zero
realpath: 1.. names_only star_safe -LPemqsz --canonicalize-existing --canonicalize-missing --logical --no-symlinks
    --physical --quiet --strip --zero
readlink: 1.. names_only star_safe -efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline
    --quiet --silent --verbose --zero
pwd: none -LP
true false arch whoami groups lscpu: none
uname: none -aimnoprsv --all --hardware-platform --kernel-name --kernel-release --machine --nodename --operating-system
    --processor
nproc: none --all
uptime: none -ps --pretty --since
hostname: none -s
id: words ..1 -Ggnruz --group --groups --name --real --user --zero
which: words 1.. -a
whereis: words 1.. -bms
free: none -bghkm --bytes --giga --human --kibi --mebi --mega --total
type: words 1.. -Papt
tree: names_only no_clusters -ACDFJNQSXadfghinpqrstuv -ILP= --dirsfirst --du --filelimit= --filesfirst --gitignore
    --ignore-case --inodes --noreport --prune --si --sort= --timefmt=
fd fdfind: pattern(e,t,extension,type) names_only -0HIagipsu -ESdet= --absolute-path --case-sensitive --changed-before=
    --changed-within= --exclude= --extension= --fixed-strings --full-path --glob --hidden --ignore-case --max-depth=
    --max-results= --min-depth= --no-ignore --print0 --regex --size= --type=
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum: filters star_safe -btz --binary --tag --text --zero
cksum: filters
sum: filters -rs
base64 base32: ..1 filters -di -w= --decode --ignore-garbage --wrap=
strings: 1.. -afow -ent= --all --bytes= --encoding= --print-file-name --radix=
od: filters star_safe -abcdfhilosvx -ANSjt= --address-radix= --endian= --format= --output-duplicates --read-bytes=
    --skip-bytes=
hexdump: filters -Cbcdovx -ens=
hd: filters -bcdovx -ens=
xxd: ..1 filters no_clusters -abeipu -cgls=
column: filters -tx -cos= --output-separator= --separator= --table
fold: filters star_safe -bs -w= --bytes --spaces --width=
fmt: filters -cstu -gpw= --width=
expand: filters -i -t= --initial --tabs=
unexpand: filters -a -t= --all --first-only --tabs=
""")

WITH_CHECKS_OF_THEIR_OWN = read_programs("""
date: words -Ru -d= -I[=] --date= --iso-8601[=] --rfc-3339= --utc
seq: words -w -fs=
jq: pattern 1.. filters -CMSacejnrs --ascii-output --color-output --compact-output --exit-status --indent=
    --join-output --monochrome-output --null-input --raw-output --slurp --sort-keys --tab
""")

FIND_TESTS_ALONE = frozenset(
    """
    -a -and -o -or -not ! ( ) -daystart -depth -empty -executable -false -ls -mount -nogroup -noleaf -nouser -print
    -print0 -prune -quit -readable -true -writable -xdev
    """.split()
)
FIND_TESTS_WITH_VALUE = frozenset(
    """
    -amin -atime -cmin -ctime -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname -maxdepth
    -mindepth -mmin -mtime -name -newermt -path -perm -printf -regex -regextype -size -type -uid -user -wholename -xtype
    """.split()
)
FIND_TESTS_WITH_PATH = frozenset(("-anewer", "-cnewer", "-newer", "-samefile"))

JQ_NAMES = frozenset(
    """
    add all and any arrays ascii_downcase ascii_upcase booleans contains del elif else empty end endswith false
    first flatten floor from_entries fromjson group_by has if in index indices inside iterables join keys
    keys_unsorted last leaf_paths length ltrimstr map map_values match max max_by min min_by not null nulls
    numbers objects or paths reverse round rtrimstr scalars select sort sort_by split startswith strings test
    then to_entries tojson tonumber tostring true type unique unique_by utf8bytelength values with_entries
    """.split()
)
"""What a filter may call. `import`, `include`, `input` and `env` read elsewhere; `repeat` and `range` need not end."""
