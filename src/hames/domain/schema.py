"""Does a value fit a JSON Schema: the part of the language that tool inputs use.

Written for the reader who must correct the call, which is a model: one sentence,
with the path to the wrong part. Keywords it does not know never refuse a value, and
`pattern` is one of them: a schema may come from a stranger, and a regular expression
of a stranger can run for ever.
"""

from collections.abc import Callable, Iterable

from hames.domain.json import Json

MAX_DEPTH = 64
MAX_STEPS = 100_000
SHOWN_CHARS = 80


def _is_number(value: Json) -> bool:
    # NaN is equal to nothing and infinity has no integer part: neither is JSON.
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


_KINDS: dict[str, Callable[[Json], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == value // 1,
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def check(value: Json, schema: Json) -> str:
    """The first complaint, or nothing.

    >>> check({"path": 3}, {"type": "object", "properties": {"path": {"type": "string"}}})
    '`path` must be a string, not 3'
    """
    return _Checker(schema).complaint(value, schema, "", 0)


class _Checker:
    def __init__(self, root: Json) -> None:
        self._root = root
        self._steps = 0

    def complaint(self, value: Json, schema: Json, path: str, depth: int) -> str:
        if schema is True or schema is None:
            return ""
        if schema is False:
            return f"{_name(path)} is not allowed"
        if not isinstance(schema, dict):
            return ""
        # References and alternatives multiply: a schema of ten lines can ask for more steps than there is time.
        self._steps += 1
        if depth > MAX_DEPTH or self._steps > MAX_STEPS:
            return f"{_name(path)} is nested too deeply to be checked"
        checks = (self._reference, self._kind, self._words, self._number, self._length)
        for one in (*checks, self._array, self._object, self._unions):
            if found := one(value, schema, path, depth):
                return found
        return ""

    def _reference(self, value: Json, schema: Json, path: str, depth: int) -> str:
        target = schema.get("$ref")
        if not isinstance(target, str) or not target.startswith("#"):
            return ""
        found: Json = self._root
        for part in target[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                return ""
            found = found[key]
        return self.complaint(value, found, path, depth + 1)

    def _kind(self, value: Json, schema: Json, path: str, _: int) -> str:
        wanted = schema.get("type")
        kinds = wanted if isinstance(wanted, list) else [wanted] if wanted else []
        known = [kind for kind in kinds if kind in _KINDS]
        if not known or any(_KINDS[kind](value) for kind in known):
            return ""
        return f"{_name(path)} must be {_either(map(_article, known))}, not {_shown(value)}"

    def _words(self, value: Json, schema: Json, path: str, _: int) -> str:
        if "const" in schema and not _same(value, schema["const"]):
            return f"{_name(path)} must be {_shown(schema['const'])}, not {_shown(value)}"
        words = schema.get("enum")
        if isinstance(words, list) and not any(_same(value, word) for word in words):
            return f"{_name(path)} must be {_either(map(_shown, words))}, not {_shown(value)}"
        return ""

    def _number(self, value: Json, schema: Json, path: str, _: int) -> str:
        if not _is_number(value):
            return ""
        bounds: tuple[tuple[str, str, Callable[[Json], bool]], ...] = (
            ("minimum", "at least", lambda bound: value >= bound),
            ("maximum", "at most", lambda bound: value <= bound),
            ("exclusiveMinimum", "more than", lambda bound: value > bound),
            ("exclusiveMaximum", "less than", lambda bound: value < bound),
        )
        for keyword, words, holds in bounds:
            bound = schema.get(keyword)
            if _is_number(bound) and not holds(bound):
                return f"{_name(path)} must be {words} {bound}, not {_shown(value)}"
        return ""

    def _length(self, value: Json, schema: Json, path: str, _: int) -> str:
        if isinstance(value, str):
            low, high, unit = "minLength", "maxLength", "character"
        elif isinstance(value, list):
            low, high, unit = "minItems", "maxItems", "item"
        elif isinstance(value, dict):
            low, high, unit = "minProperties", "maxProperties", "member"
        else:
            return ""
        least, most = schema.get(low), schema.get(high)
        if _is_number(least) and len(value) < least:
            return f"{_name(path)} must have at least {least} {unit}{'' if least == 1 else 's'}, not {len(value)}"
        if _is_number(most) and len(value) > most:
            return f"{_name(path)} must have at most {most} {unit}{'' if most == 1 else 's'}, not {len(value)}"
        return ""

    def _array(self, value: Json, schema: Json, path: str, depth: int) -> str:
        if not isinstance(value, list):
            return ""
        first = schema.get("prefixItems")
        prefix: list[Json] = first if isinstance(first, list) else []
        rest = schema.get("items")
        for index, member in enumerate(value):
            of = prefix[index] if index < len(prefix) else rest
            if found := self.complaint(member, of, f"{path}[{index}]", depth + 1):
                return found
        return ""

    def _object(self, value: Json, schema: Json, path: str, depth: int) -> str:
        if not isinstance(value, dict):
            return ""
        given = schema.get("properties")
        properties: dict[str, Json] = given if isinstance(given, dict) else {}
        others = schema.get("additionalProperties")
        required = schema.get("required")
        for key in required if isinstance(required, list) else []:
            if key not in value:
                return f"{_name(_joined(path, key))} is missing"
        for key, member in value.items():
            if key not in properties and others is False and not schema.get("patternProperties"):
                return _unknown(_joined(path, key), key, properties)
            if found := self.complaint(member, properties.get(key, others), _joined(path, key), depth + 1):
                return found
        return ""

    def _unions(self, value: Json, schema: Json, path: str, depth: int) -> str:
        for part in _parts(schema, "allOf"):
            if found := self.complaint(value, part, path, depth + 1):
                return found
        if any_of := _parts(schema, "anyOf"):
            complaints = [self.complaint(value, part, path, depth + 1) for part in any_of]
            if all(complaints):
                return _closest(value, any_of, complaints)
        if one_of := _parts(schema, "oneOf"):
            complaints = [self.complaint(value, part, path, depth + 1) for part in one_of]
            if all(complaints):
                return _closest(value, one_of, complaints)
            if complaints.count("") > 1:
                return f"{_name(path)} fits more than one of the allowed forms"
        denied = schema.get("not", False)
        if isinstance(denied, dict | bool) and not self.complaint(value, denied, path, depth + 1):
            return f"{_name(path)} has a form that is not allowed"
        return ""


def _closest(value: Json, parts: list[Json], complaints: list[str]) -> str:
    """Of several alternatives, what is wrong with the one that was probably meant: the first of the right type."""
    for part, complaint in zip(parts, complaints, strict=True):
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in _KINDS and _KINDS[kind](value):
            return complaint
    return complaints[0]


def _parts(schema: Json, keyword: str) -> list[Json]:
    parts = schema.get(keyword)
    return parts if isinstance(parts, list) else []


def _unknown(path: str, key: str, properties: dict[str, Json]) -> str:
    from difflib import get_close_matches  # slow to import, and needed only for a mistake

    if close := get_close_matches(key, properties, n=1):
        return f"{_name(path)} is not known; did you mean `{close[0]}`?"
    known = ", ".join(f"`{name}`" for name in properties)
    return f"{_name(path)} is not known; there is {known or 'nothing to give here'}"


def _same(one: Json, other: Json) -> bool:
    """As JSON has it: `1` and `1.0` are one number, `1` and `true` are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return one == other


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _name(path: str) -> str:
    return f"`{path}`" if path else "the input"


def _article(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'aio' else 'a'} {kind}"


def _either(words: Iterable[str]) -> str:
    *most, last = tuple(words) or ("nothing",)
    return f"{', '.join(most)} or {last}" if most else last


def _shown(value: Json) -> str:
    match value:
        case None | True | False:
            return str(value).lower().replace("none", "null")
        case dict():
            return "an object"
        case list():
            return "an array"
        case str() if len(value) > SHOWN_CHARS:
            return f"{value[:SHOWN_CHARS]!r}…"
        case _:
            return repr(value)
