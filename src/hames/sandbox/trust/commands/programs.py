"""Programs that only read, and how they may be called: what is allowed is listed, everything else is asked about.

Left out on purpose: flags that run a program (`rg --pre`, `sort --compress-program`), write (`sort -o`, `tree -o`),
take names from a file (`--files0-from`), follow links (`grep -R`, `ls -L`), or never end (`tail -f`).
"""

from typing import Literal

from hames.domain.value import Value

Operands = Literal["paths", "files", "pattern", "words", "none"]
"""`files` are paths that must not be directories (their entries would be opened); `pattern` is one word, then paths."""


class ReadingProgram(Value):
    """`flags` and `values` are letters without and with a value, `long` and `long_values` the same in words.
    `long_maybe` may have a value after `=`."""

    operands: Operands = "paths"
    flags: str = ""
    values: str = ""
    long: tuple[str, ...] = ()
    long_values: tuple[str, ...] = ()
    long_maybe: tuple[str, ...] = ()
    pattern_flags: tuple[str, ...] = ()
    """With one of these there is no pattern among the operands."""
    least: int = 0
    most: int = 1000
    maybe: str = ""
    """Letters that may have a value, then in the same word."""
    clusters: bool = True
    """Reads `-ab 1` as `-a -b 1`. Programs that read their words by hand do it differently, each in its own way."""
    bare_number: bool = False
    """`-20` means twenty of something."""
    filters: bool = False
    """Waits for input when it is given no file."""
    names_only: bool = False
    """Shows names, sizes and dates, and no content."""
    star_safe: bool = False
    """A file name that begins with `-` does no harm as an option, so `*.txt` may stand among its words."""


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_GREP = ReadingProgram(
    star_safe=True,
    operands="pattern",
    flags="EFGPHILTUZabchilnoqrsvwxyz",
    values="ABCDdem",
    long=names(
        "basic-regexp byte-offset count extended-regexp files-with-matches files-without-match fixed-strings "
        "ignore-case initial-tab invert-match line-buffered line-number line-regexp no-filename no-ignore-case "
        "no-messages null null-data only-matching perl-regexp quiet recursive silent text with-filename word-regexp"
    ),
    long_values=names(
        "after-context before-context binary-files context exclude exclude-dir include label max-count regexp"
    ),
    long_maybe=names("color colour"),
    pattern_flags=("e", "regexp"),
    bare_number=True,
    filters=True,
)

_RG = ReadingProgram(
    operands="pattern",
    flags=".0FHINPSUacinlopqsuvwx",
    values="ABCEMTdegjmrt",
    long=names(
        "case-sensitive column count count-matches crlf files files-with-matches files-without-match fixed-strings "
        "glob-case-insensitive heading hidden ignore-case invert-match json line-number line-regexp multiline "
        "multiline-dotall no-config no-filename no-heading no-ignore no-ignore-parent no-ignore-vcs no-line-number "
        "no-messages null null-data one-file-system only-matching passthru pcre2 pretty quiet smart-case stats text "
        "trim type-list unrestricted vimgrep with-filename word-regexp"
    ),
    long_values=names(
        "after-context before-context color colors context context-separator encoding glob iglob max-columns max-count "
        "max-depth max-filesize path-separator regexp replace sort sortr threads type type-not"
    ),
    pattern_flags=("e", "regexp", "files", "type-list"),
)

_FD = ReadingProgram(
    operands="pattern",
    flags="0HIagipsu",
    values="ESdet",
    long=names("absolute-path case-sensitive fixed-strings full-path glob hidden ignore-case no-ignore print0 regex"),
    long_values=names("changed-before changed-within exclude extension max-depth max-results min-depth size type"),
    pattern_flags=("e", "t", "extension", "type"),
    names_only=True,
)

_CHECKSUM = ReadingProgram(star_safe=True, flags="btz", long=names("binary text tag zero"), filters=True)
_BASE_ENCODING = ReadingProgram(
    operands="paths",
    flags="di",
    values="w",
    long=names("decode ignore-garbage"),
    long_values=("wrap",),
    most=1,
    filters=True,
)

PROGRAMS: dict[str, ReadingProgram] = {
    "ls": ReadingProgram(
        names_only=True,
        star_safe=True,
        flags="1ABCFGNQRSUXabcdfghiklmnopqrstuvx",
        values="I",
        long=names(
            "all almost-all author classify directory escape file-type full-time group-directories-first "
            "human-readable inode kibibytes literal no-group numeric-uid-gid quote-name recursive reverse si size"
        ),
        long_values=names("format hide ignore indicator-style quoting-style sort time time-style"),
        long_maybe=("color",),
    ),
    "cat": ReadingProgram(
        star_safe=True,
        flags="AETbenstuv",
        long=names("number number-nonblank show-all show-ends show-nonprinting show-tabs squeeze-blank"),
        filters=True,
    ),
    "head": ReadingProgram(
        star_safe=True,
        flags="qvz",
        values="cn",
        long=names("quiet silent verbose zero-terminated"),
        long_values=names("bytes lines"),
        bare_number=True,
        filters=True,
    ),
    "tail": ReadingProgram(
        star_safe=True,
        flags="qvz",
        values="cn",
        long=names("quiet silent verbose zero-terminated"),
        long_values=names("bytes lines"),
        bare_number=True,
        filters=True,
    ),
    "nl": ReadingProgram(
        star_safe=True,
        flags="p",
        values="bdfhilnsvw",
        long=("no-renumber",),
        long_values=names(
            "body-numbering footer-numbering header-numbering line-increment number-format number-separator "
            "number-width section-delimiter starting-line-number"
        ),
        filters=True,
    ),
    "wc": ReadingProgram(
        star_safe=True, flags="Lclmw", long=names("bytes chars lines max-line-length words"), filters=True
    ),
    "tac": ReadingProgram(
        star_safe=True, flags="br", values="s", long=names("before regex"), long_values=("separator",), filters=True
    ),
    "rev": ReadingProgram(star_safe=True, filters=True),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "sort": ReadingProgram(
        flags="CMRVbcdfghimnrsuz",
        values="kt",
        long=names(
            "dictionary-order general-numeric-sort human-numeric-sort ignore-case ignore-leading-blanks "
            "ignore-nonprinting merge month-sort numeric-sort reverse stable unique version-sort zero-terminated"
        ),
        long_values=names("field-separator key sort"),
        long_maybe=("check",),
        filters=True,
    ),
    "uniq": ReadingProgram(
        flags="Dcdiuz",
        values="fsw",
        long=names("count ignore-case repeated unique zero-terminated"),
        long_values=names("check-chars skip-chars skip-fields"),
        long_maybe=names("all-repeated group"),
        most=1,
        filters=True,
    ),
    "cut": ReadingProgram(
        star_safe=True,
        flags="nsz",
        values="bcdf",
        long=names("complement only-delimited zero-terminated"),
        long_values=names("bytes characters delimiter fields output-delimiter"),
        filters=True,
    ),
    "tr": ReadingProgram(
        operands="words",
        flags="Ccdst",
        long=names("complement delete squeeze-repeats truncate-set1"),
        least=1,
        most=2,
    ),
    "paste": ReadingProgram(
        star_safe=True, flags="sz", values="d", long=("serial",), long_values=("delimiters",), filters=True
    ),
    "join": ReadingProgram(
        flags="iz",
        values="12aejotv",
        long=names("check-order header ignore-case nocheck-order zero-terminated"),
        least=2,
        most=2,
    ),
    "comm": ReadingProgram(
        flags="123z",
        long=names("check-order nocheck-order total zero-terminated"),
        long_values=("output-delimiter",),
        least=2,
        most=2,
    ),
    "diff": ReadingProgram(
        operands="files",
        flags="BEHNTZabdeinpqstuwyc",
        values="CFILUWx",
        long=names(
            "brief expand-tabs ignore-all-space ignore-blank-lines ignore-case ignore-space-change "
            "ignore-tab-expansion "
            "ignore-trailing-space initial-tab left-column minimal new-file report-identical-files "
            "show-c-function side-by-side speed-large-files strip-trailing-cr suppress-common-lines text"
        ),
        long_values=names("horizon-lines ignore-matching-lines label show-function-line tabsize width"),
        long_maybe=names("color context unified"),
        least=2,
        most=2,
    ),
    "cmp": ReadingProgram(
        operands="files",
        flags="bls",
        values="in",
        long=names("print-bytes quiet silent verbose"),
        long_values=names("bytes ignore-initial"),
        least=2,
        most=2,
    ),
    "du": ReadingProgram(
        names_only=True,
        star_safe=True,
        flags="0Sabchkmsx",
        values="d",
        long=names(
            "all apparent-size bytes count-links human-readable null one-file-system separate-dirs si summarize total"
        ),
        long_values=names("block-size exclude max-depth threshold"),
        long_maybe=("time",),
    ),
    "df": ReadingProgram(
        names_only=True,
        flags="HPTahikl",
        long=names("all human-readable inodes local portability print-type si total"),
        long_values=("block-size",),
        long_maybe=("output",),
    ),
    "stat": ReadingProgram(
        names_only=True,
        star_safe=True,
        flags="Lft",
        values="c",
        long=names("dereference file-system terse"),
        long_values=names("format printf"),
        least=1,
    ),
    "file": ReadingProgram(
        flags="LNbhikr",
        long=names("brief dereference keep-going mime mime-encoding mime-type no-dereference no-pad raw"),
        least=1,
    ),
    "basename": ReadingProgram(
        star_safe=True,
        operands="words",
        flags="az",
        values="s",
        long=names("multiple zero"),
        long_values=("suffix",),
        least=1,
    ),
    "dirname": ReadingProgram(star_safe=True, operands="words", flags="z", long=("zero",), least=1),
    "realpath": ReadingProgram(
        names_only=True,
        star_safe=True,
        flags="LPemqsz",
        long=names("canonicalize-existing canonicalize-missing logical no-symlinks physical quiet strip zero"),
        least=1,
    ),
    "readlink": ReadingProgram(
        names_only=True,
        star_safe=True,
        flags="efmnqsvz",
        long=names("canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero"),
        least=1,
    ),
    "pwd": ReadingProgram(operands="none", flags="LP"),
    "true": ReadingProgram(operands="none"),
    "false": ReadingProgram(operands="none"),
    "uname": ReadingProgram(
        operands="none",
        flags="aimnoprsv",
        long=names("all hardware-platform kernel-name kernel-release machine nodename operating-system processor"),
    ),
    "arch": ReadingProgram(operands="none"),
    "nproc": ReadingProgram(operands="none", long=("all",)),
    "uptime": ReadingProgram(operands="none", flags="ps", long=names("pretty since")),
    "whoami": ReadingProgram(operands="none"),
    "groups": ReadingProgram(operands="none"),
    "hostname": ReadingProgram(operands="none", flags="s"),
    "id": ReadingProgram(operands="words", flags="Ggnruz", long=names("group groups name real user zero"), most=1),
    "which": ReadingProgram(operands="words", flags="a", least=1),
    "whereis": ReadingProgram(operands="words", flags="bms", least=1),
    "free": ReadingProgram(operands="none", flags="bghkm", long=names("bytes giga human kibi mebi mega total")),
    "lscpu": ReadingProgram(operands="none"),
    "type": ReadingProgram(operands="words", flags="Papt", least=1),
    "tree": ReadingProgram(
        names_only=True,
        flags="ACDFJNQSXadfghinpqrstuv",
        values="ILP",
        clusters=False,
        long=names("dirsfirst du filesfirst gitignore ignore-case inodes noreport prune si"),
        long_values=names("filelimit sort timefmt"),
    ),
    "fd": _FD,
    "fdfind": _FD,
    "md5sum": _CHECKSUM,
    "sha1sum": _CHECKSUM,
    "sha224sum": _CHECKSUM,
    "sha256sum": _CHECKSUM,
    "sha384sum": _CHECKSUM,
    "sha512sum": _CHECKSUM,
    "b2sum": _CHECKSUM,
    "cksum": ReadingProgram(filters=True),
    "sum": ReadingProgram(flags="rs", filters=True),
    "base64": _BASE_ENCODING,
    "base32": _BASE_ENCODING,
    "strings": ReadingProgram(
        flags="afow",
        values="ent",
        long=names("all print-file-name"),
        long_values=names("bytes encoding radix"),
        least=1,
    ),
    "od": ReadingProgram(
        star_safe=True,
        flags="abcdfhilosvx",
        values="ANSjt",
        long=("output-duplicates",),
        long_values=names("address-radix endian format read-bytes skip-bytes"),
        filters=True,
    ),
    "hexdump": ReadingProgram(flags="Cbcdovx", values="ens", filters=True),
    "hd": ReadingProgram(flags="bcdovx", values="ens", filters=True),
    "xxd": ReadingProgram(flags="abeipu", values="cgls", clusters=False, most=1, filters=True),
    "column": ReadingProgram(
        flags="tx", values="cos", long=("table",), long_values=names("output-separator separator"), filters=True
    ),
    "fold": ReadingProgram(
        star_safe=True, flags="bs", values="w", long=names("bytes spaces"), long_values=("width",), filters=True
    ),
    "fmt": ReadingProgram(flags="cstu", values="gpw", long_values=("width",), filters=True),
    "expand": ReadingProgram(flags="i", values="t", long=("initial",), long_values=("tabs",), filters=True),
    "unexpand": ReadingProgram(
        flags="a", values="t", long=names("all first-only"), long_values=("tabs",), filters=True
    ),
}

FIND_TESTS_ALONE = frozenset(
    names("-a -and -o -or -not ! ( ) -daystart -depth -empty -executable -false -ls -mount -nogroup -noleaf -nouser ")
    + names("-print -print0 -prune -quit -readable -true -writable -xdev")
)
FIND_TESTS_WITH_VALUE = frozenset(
    names("-amin -atime -cmin -ctime -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname ")
    + names(
        "-maxdepth -mindepth -mmin -mtime -name -newermt -path -perm -printf -regex -regextype -size -type -uid -user "
    )
    + names("-wholename -xtype")
)
FIND_TESTS_WITH_PATH = frozenset(names("-anewer -cnewer -newer -samefile"))

JQ = ReadingProgram(
    operands="pattern",
    flags="CMSacejnrs",
    long=names(
        "ascii-output color-output compact-output exit-status join-output monochrome-output null-input raw-output "
        "slurp sort-keys tab"
    ),
    long_values=("indent",),
    least=1,
    filters=True,
)
JQ_NAMES = frozenset(
    names(
        "add all and any arrays ascii_downcase ascii_upcase booleans contains del elif else empty end endswith false "
        "first flatten floor from_entries fromjson group_by has if in index indices inside iterables join keys "
        "keys_unsorted last leaf_paths length ltrimstr map map_values match max max_by min min_by not null nulls "
        "numbers objects or paths reverse round rtrimstr scalars select sort sort_by split startswith strings test "
        "then to_entries tojson tonumber tostring true type unique unique_by utf8bytelength values with_entries"
    )
)
"""What a filter may call. `import`, `include`, `input` and `env` read elsewhere; `repeat` and `range` need not end."""
