r"""Scripts of `sed` and `awk` that only print: a small grammar of what is allowed, matched as a whole.

>>> [script for script in ("1,20p", "/def /,/^$/p", "s/a/b/g", "s/a/b/e", "1w out", "$=") if is_plain_sed(script)]
['1,20p', '/def /,/^$/p', 's/a/b/g', '$=']
>>> [script for script in ("{print $1}", "NR==5", "/x/", '{print "a" > "f"}', "{system(1)}") if is_plain_awk(script)]
['{print $1}', 'NR==5', '/x/']
"""

import re

_MAX_CHARACTERS = 500


def _regex(edge: str) -> str:
    """A regular expression up to `edge`. None may be inside brackets: programs disagree on whether it ends there."""
    bracket = rf"\[\^?(?:\[:\w+:\]|[^\]\[\\{edge}]|\\[^\]\[{edge}])+\]"
    return rf"(?:[^\[\\{edge}]|\\.|{bracket})*"


_MATCH = f"/{_regex('/')}/"
_ADDRESS = rf"(?:\d{{1,9}}(?:~\d{{1,9}})?|\$|{_MATCH}I?)"
_RANGE = rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~]\d{{1,9}}))?!?)?"


def _substitution(edge: str) -> str:
    end = re.escape(edge)
    return rf"s{end}{_regex(edge)}{end}(?:[^{edge}\\]|\\.)*{end}[gpiI0-9]*"


# `e` runs a program, `w` and `W` write, `r` and `R` read another file: none of them is here.
_STEP = rf"\s*{_RANGE}(?:[pdq=]|{'|'.join(map(_substitution, '/|#,:'))})\s*"
_SED = re.compile(rf"{_STEP}(?:;{_STEP})*;?")

_TEXT = r"\"[^\"\\|]{0,80}\""
_FIELD = rf"(?:\$(?:\d{{1,4}}|NF|\(NF-\d{{1,3}}\))|NR|FNR|NF|FILENAME|{_TEXT})"
_TEST = rf"(?:{_MATCH}|(?:NR|FNR|NF|\$\d{{1,4}})\s*(?:[<>!=]=|[<>]|!?~)\s*(?:\d{{1,9}}|{_TEXT}|{_MATCH}))"
_PRINT = rf"\{{\s*print(?:\s+{_FIELD}(?:\s*(?:,\s*)?{_FIELD}){{0,20}})?\s*;?\s*\}}"
_AWK = re.compile(rf"\s*(?:{_TEST}(?:\s*(?:&&|\|\||,)\s*{_TEST}){{0,4}}\s*(?:{_PRINT})?|{_PRINT})\s*")


def is_plain_sed(script: str) -> bool:
    return len(script) <= _MAX_CHARACTERS and _SED.fullmatch(script) is not None


def is_plain_awk(script: str) -> bool:
    return len(script) <= _MAX_CHARACTERS and _AWK.fullmatch(script) is not None
