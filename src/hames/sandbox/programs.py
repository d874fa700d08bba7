"""Programs that only read, and how they may be called: what is allowed is listed, everything else is asked about.

Left out on purpose: flags that run a program (`rg --pre`, `sort --compress-program`), write (`sort -o`, `tree -o`),
take names from a file (`--files0-from`), follow links (`grep -R`, `ls -L`), or never end (`tail -f`).
"""

from typing import Literal

from hames.domain.value import Value

Operands = Literal["paths", "files", "pattern", "words", "none"]
"""`files` are paths that must not be directories (their entries would be opened); `pattern` is one word, then paths."""


class Program(Value):
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


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_GREP = Program(
    operands="pattern",
    flags="EFGPHILTUZabchilnoqrsvwxyz",
    values="ABCDdem",
    long=_names(
        "basic-regexp byte-offset count extended-regexp files-with-matches files-without-match fixed-strings "
        "ignore-case initial-tab invert-match line-buffered line-number line-regexp no-filename no-ignore-case "
        "no-messages null null-data only-matching perl-regexp quiet recursive silent text with-filename word-regexp"
    ),
    long_values=_names(
        "after-context before-context binary-files context exclude exclude-dir include label max-count regexp"
    ),
    long_maybe=_names("color colour"),
    pattern_flags=("e", "regexp"),
    bare_number=True,
    filters=True,
)

_RG = Program(
    operands="pattern",
    flags=".0FHINPSUacinlopqsuvwx",
    values="ABCEMTdegjmrt",
    long=_names(
        "case-sensitive column count count-matches crlf files files-with-matches files-without-match fixed-strings "
        "glob-case-insensitive heading hidden ignore-case invert-match json line-number line-regexp multiline "
        "multiline-dotall no-config no-filename no-heading no-ignore no-ignore-parent no-ignore-vcs no-line-number "
        "no-messages null null-data one-file-system only-matching passthru pcre2 pretty quiet smart-case stats text "
        "trim type-list unrestricted vimgrep with-filename word-regexp"
    ),
    long_values=_names(
        "after-context before-context color colors context context-separator encoding glob iglob max-columns max-count "
        "max-depth max-filesize path-separator regexp replace sort sortr threads type type-not"
    ),
    pattern_flags=("e", "regexp", "files", "type-list"),
)

_CHECKSUM = Program(flags="btz", long=_names("binary text tag zero"), filters=True)
_BASE_ENCODING = Program(
    operands="paths",
    flags="di",
    values="w",
    long=_names("decode ignore-garbage"),
    long_values=("wrap",),
    most=1,
    filters=True,
)

PROGRAMS: dict[str, Program] = {
    "ls": Program(
        flags="1ABCFGNQRSUXabcdfghiklmnopqrstuvx",
        values="I",
        long=_names(
            "all almost-all author classify directory escape file-type full-time group-directories-first "
            "human-readable inode kibibytes literal no-group numeric-uid-gid quote-name recursive reverse si size"
        ),
        long_values=_names("format hide ignore indicator-style quoting-style sort time time-style"),
        long_maybe=("color",),
    ),
    "cat": Program(
        flags="AETbenstuv",
        long=_names("number number-nonblank show-all show-ends show-nonprinting show-tabs squeeze-blank"),
        filters=True,
    ),
    "head": Program(
        flags="qvz",
        values="cn",
        long=_names("quiet silent verbose zero-terminated"),
        long_values=_names("bytes lines"),
        bare_number=True,
        filters=True,
    ),
    "tail": Program(
        flags="qvz",
        values="cn",
        long=_names("quiet silent verbose zero-terminated"),
        long_values=_names("bytes lines"),
        bare_number=True,
        filters=True,
    ),
    "nl": Program(
        flags="p",
        values="bdfhilnsvw",
        long=("no-renumber",),
        long_values=_names(
            "body-numbering footer-numbering header-numbering line-increment number-format number-separator "
            "number-width section-delimiter starting-line-number"
        ),
        filters=True,
    ),
    "wc": Program(flags="Lclmw", long=_names("bytes chars lines max-line-length words"), filters=True),
    "tac": Program(flags="br", values="s", long=_names("before regex"), long_values=("separator",), filters=True),
    "rev": Program(filters=True),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "sort": Program(
        flags="CMRVbcdfghimnrsuz",
        values="kt",
        long=_names(
            "dictionary-order general-numeric-sort human-numeric-sort ignore-case ignore-leading-blanks "
            "ignore-nonprinting merge month-sort numeric-sort reverse stable unique version-sort zero-terminated"
        ),
        long_values=_names("field-separator key sort"),
        long_maybe=("check",),
        filters=True,
    ),
    "uniq": Program(
        flags="Dcdiuz",
        values="fsw",
        long=_names("count ignore-case repeated unique zero-terminated"),
        long_values=_names("check-chars skip-chars skip-fields"),
        long_maybe=_names("all-repeated group"),
        most=1,
        filters=True,
    ),
    "cut": Program(
        flags="nsz",
        values="bcdf",
        long=_names("complement only-delimited zero-terminated"),
        long_values=_names("bytes characters delimiter fields output-delimiter"),
        filters=True,
    ),
    "tr": Program(
        operands="words",
        flags="Ccdst",
        long=_names("complement delete squeeze-repeats truncate-set1"),
        least=1,
        most=2,
    ),
    "paste": Program(flags="sz", values="d", long=("serial",), long_values=("delimiters",), filters=True),
    "join": Program(
        flags="iz",
        values="12aejotv",
        long=_names("check-order header ignore-case nocheck-order zero-terminated"),
        least=2,
        most=2,
    ),
    "comm": Program(
        flags="123z",
        long=_names("check-order nocheck-order total zero-terminated"),
        long_values=("output-delimiter",),
        least=2,
        most=2,
    ),
    "diff": Program(
        operands="files",
        flags="BEHNTZabdeinpqstuwyc",
        values="CFILUWx",
        long=_names(
            "brief expand-tabs ignore-all-space ignore-blank-lines ignore-case ignore-space-change "
            "ignore-tab-expansion "
            "ignore-trailing-space initial-tab left-column minimal new-file report-identical-files "
            "show-c-function side-by-side speed-large-files strip-trailing-cr suppress-common-lines text"
        ),
        long_values=_names("horizon-lines ignore-matching-lines label show-function-line tabsize width"),
        long_maybe=_names("color context unified"),
        least=2,
        most=2,
    ),
    "cmp": Program(
        operands="files",
        flags="bls",
        values="in",
        long=_names("print-bytes quiet silent verbose"),
        long_values=_names("bytes ignore-initial"),
        least=2,
        most=2,
    ),
    "du": Program(
        flags="0Sabchkmsx",
        values="d",
        long=_names(
            "all apparent-size bytes count-links human-readable null one-file-system separate-dirs si summarize total"
        ),
        long_values=_names("block-size exclude max-depth threshold"),
        long_maybe=("time",),
    ),
    "df": Program(
        flags="HPTahikl",
        long=_names("all human-readable inodes local portability print-type si total"),
        long_values=("block-size",),
        long_maybe=("output",),
    ),
    "stat": Program(
        flags="Lft",
        values="c",
        long=_names("dereference file-system terse"),
        long_values=_names("format printf"),
        least=1,
    ),
    "file": Program(
        flags="LNbhikr",
        long=_names("brief dereference keep-going mime mime-encoding mime-type no-dereference no-pad raw"),
        least=1,
    ),
    "basename": Program(
        operands="words", flags="az", values="s", long=_names("multiple zero"), long_values=("suffix",), least=1
    ),
    "dirname": Program(operands="words", flags="z", long=("zero",), least=1),
    "realpath": Program(
        flags="LPemqsz",
        long=_names("canonicalize-existing canonicalize-missing logical no-symlinks physical quiet strip zero"),
        least=1,
    ),
    "readlink": Program(
        flags="efmnqsvz",
        long=_names("canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero"),
        least=1,
    ),
    "pwd": Program(operands="none", flags="LP"),
    "true": Program(operands="none"),
    "false": Program(operands="none"),
    "uname": Program(
        operands="none",
        flags="aimnoprsv",
        long=_names("all hardware-platform kernel-name kernel-release machine nodename operating-system processor"),
    ),
    "arch": Program(operands="none"),
    "nproc": Program(operands="none", long=("all",)),
    "uptime": Program(operands="none", flags="ps", long=_names("pretty since")),
    "whoami": Program(operands="none"),
    "groups": Program(operands="none"),
    "hostname": Program(operands="none", flags="s"),
    "id": Program(operands="words", flags="Ggnruz", long=_names("group groups name real user zero"), most=1),
    "which": Program(operands="words", flags="a", least=1),
    "type": Program(operands="words", flags="Papt", least=1),
    "tree": Program(
        flags="ACDFJNQSXadfghinpqrstuv",
        values="ILP",
        clusters=False,
        long=_names("dirsfirst du filesfirst gitignore ignore-case inodes noreport prune si"),
        long_values=_names("filelimit sort timefmt"),
    ),
    "md5sum": _CHECKSUM,
    "sha1sum": _CHECKSUM,
    "sha224sum": _CHECKSUM,
    "sha256sum": _CHECKSUM,
    "sha384sum": _CHECKSUM,
    "sha512sum": _CHECKSUM,
    "b2sum": _CHECKSUM,
    "cksum": Program(filters=True),
    "sum": Program(flags="rs", filters=True),
    "base64": _BASE_ENCODING,
    "base32": _BASE_ENCODING,
    "strings": Program(
        flags="afow",
        values="ent",
        long=_names("all print-file-name"),
        long_values=_names("bytes encoding radix"),
        least=1,
    ),
    "od": Program(
        flags="abcdfhilosvx",
        values="ANSjt",
        long=("output-duplicates",),
        long_values=_names("address-radix endian format read-bytes skip-bytes"),
        filters=True,
    ),
    "hexdump": Program(flags="Cbcdovx", values="ens", filters=True),
    "hd": Program(flags="bcdovx", values="ens", filters=True),
    "xxd": Program(flags="abeipu", values="cgls", clusters=False, most=1, filters=True),
    "column": Program(
        flags="tx", values="cos", long=("table",), long_values=_names("output-separator separator"), filters=True
    ),
    "fold": Program(flags="bs", values="w", long=_names("bytes spaces"), long_values=("width",), filters=True),
    "fmt": Program(flags="cstu", values="gpw", long_values=("width",), filters=True),
    "expand": Program(flags="i", values="t", long=("initial",), long_values=("tabs",), filters=True),
    "unexpand": Program(flags="a", values="t", long=_names("all first-only"), long_values=("tabs",), filters=True),
}

FIND_TESTS_ALONE = frozenset(
    _names("-a -and -o -or -not ! ( ) -daystart -depth -empty -executable -false -ls -mount -nogroup -noleaf -nouser ")
    + _names("-print -print0 -prune -quit -readable -true -writable -xdev")
)
FIND_TESTS_WITH_VALUE = frozenset(
    _names("-amin -atime -cmin -ctime -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname ")
    + _names("-maxdepth -mindepth -mmin -mtime -name -path -perm -printf -regex -regextype -size -type -uid -user ")
    + _names("-wholename -xtype")
)
FIND_TESTS_WITH_PATH = frozenset(_names("-anewer -cnewer -newer -samefile"))

JQ = Program(
    operands="pattern",
    flags="CMSacejnrs",
    long=_names(
        "ascii-output color-output compact-output exit-status join-output monochrome-output null-input raw-output "
        "slurp sort-keys tab"
    ),
    long_values=("indent",),
    least=1,
    filters=True,
)
JQ_NAMES = frozenset(
    _names(
        "add all and any arrays ascii_downcase ascii_upcase booleans contains del elif else empty end endswith false "
        "first flatten floor from_entries fromjson group_by has if in index indices inside iterables join keys "
        "keys_unsorted last leaf_paths length ltrimstr map map_values match max max_by min min_by not null nulls "
        "numbers objects or paths reverse round rtrimstr scalars select sort sort_by split startswith strings test "
        "then to_entries tojson tonumber tostring true type unique unique_by utf8bytelength values with_entries"
    )
)
"""What a filter may call. `import`, `include`, `input` and `env` read elsewhere; `repeat` and `range` need not end."""

SECRET_NAMES = frozenset(
    _names(
        ".bash_history .dockercfg .env .git-credentials .htpasswd .netrc .npmrc .pgpass .pypirc .vault-token "
        ".zsh_history _netrc auth.json credentials credentials.json credentials.toml id_dsa id_ecdsa id_ed25519 id_rsa "
        "secrets.json secrets.toml secrets.yaml secrets.yml"
    )
)
SECRET_ENDINGS = (".jks", ".kdbx", ".key", ".keystore", ".p12", ".pem", ".pfx", ".ppk", ".tfstate")
SECRET_DIRECTORIES = frozenset(_names(".aws .azure .docker .gnupg .kube .password-store .ssh"))
NOT_SECRET = (".example", ".sample", ".template", ".dist")
