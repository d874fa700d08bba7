"""Lines that are almost right: made from good ones by cutting, swapping, repeating and spoiling.

Seeded, so that a line that did harm can be made again.
"""

import random

GOOD = [
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}',
    b'{"jsonrpc":"2.0","id":"a-1","method":"thread.create","params":{"title":"A","directory":"/"}}',
    b'{"jsonrpc":"2.0","id":2,"method":"thread.list"}',
    b'{"jsonrpc":"2.0","id":3,"method":"thread.get","params":{"threadId":"ses_000001"}}',
    b'{"jsonrpc":"2.0","id":4,"method":"turn.start","params":{"threadId":"ses_000001","input":[{"type":"text","text":"hi"},'
    b'{"type":"image","url":"data:image/png;base64,AA=="},{"type":"file","path":"a.txt"}],'
    b'"model":{"providerID":"scripted","modelID":"test"},"agent":"plan"}}',
    b'{"jsonrpc":"2.0","id":5,"method":"turn.cancel","params":{"threadId":"ses_000001"}}',
    b'{"jsonrpc":"2.0","id":6,"method":"approval.respond","params":{"requestId":"apr_1","decision":"once"}}',
    b'[{"jsonrpc":"2.0","id":7,"method":"thread.list"},{"jsonrpc":"2.0","method":"x"},{"id":8}]',
    b'{"jsonrpc":"2.0","id":9,"result":{}}',
    b'{"jsonrpc":"2.0","method":"initialized"}',
    b'{"id":1,"method":"thread/start","params":{"cwd":"/","sandbox":{"type":"readOnly"},"_meta":{"x":1}}}',
    b'{"id":2,"method":"turn/start","params":{"threadId":"t","input":[{"type":"text","text":"x"}],"config":{"a":"b"}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"m","command":"/m",'
    b'"args":["x"],"env":[{"name":"K","value":"V"}]},{"type":"http","name":"h","url":"http://x","headers":[]}]}}',
    b'{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"ses_1","prompt":[{"type":"text","text":"/x"},'
    b'{"type":"image","mimeType":"image/png","data":"AA=="},{"type":"resource","resource":{"uri":"file:///a","text":"t"}}]}}',
    b'{"jsonrpc":"2.0","id":3,"method":"session/resume","params":{"sessionId":"ses_1","cwd":"/w","replayFrom":{"type":"start"}}}',
    b'{"jsonrpc":"2.0","id":4,"method":"session/set_config_option","params":{"sessionId":"s","configId":"mode","value":"plan"}}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}',
]
TOKENS = [
    *(b'{ } [ ] : , null true false NaN Infinity -Infinity 0 -0 1e400 1.5 -1 " \\ "" {} [] [[]] /* */ //'.split()),
    b"\\u0000",
    b"\\ud800",
    b"\\udfff\\ud800",
    b"\\x41",
    b"\xff",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\x00",
    b"\x1b[2J",
    b"\r",
    b"9" * 30,
    b"9" * 5000,
    b'"' + b"x" * 3000 + b'"',
    b'{"a":1,"a":2}',
    b"[" * 40 + b"]" * 40,
    b'{"a":' * 600,
    b"[" * 2000,
    b'"id":null',
    b'"id":true',
    b'"id":{}',
    b'"method":5',
    b'"jsonrpc":"2.0"',
    b'"params":7',
    b'"__proto__":{}',
    b'"threadId":"../../etc/passwd"',
]


def lines(seed: int, count: int) -> list[bytes]:
    """So many lines, none of them with an LF in it."""
    dice = random.Random(seed)
    return [spoiled(dice, GOOD).replace(b"\n", b" ") for _ in range(count)]


def spoiled(dice: random.Random, good: list[bytes]) -> bytes:
    line = dice.choice(good)
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3, 6))):
        line = dice.choice((_cut, _insert, _replace, _flip, _repeat, _swap, _splice))(line, dice)
    return line


def _place(line: bytes, dice: random.Random) -> int:
    return dice.randint(0, len(line))


def _cut(line: bytes, dice: random.Random) -> bytes:
    start, end = sorted((_place(line, dice), _place(line, dice)))
    return line[:start] + line[end:]


def _insert(line: bytes, dice: random.Random) -> bytes:
    at = _place(line, dice)
    return line[:at] + dice.choice(TOKENS) + line[at:]


def _replace(line: bytes, dice: random.Random) -> bytes:
    """A value by another: what stands between two structural characters."""
    marks = [at for at, byte in enumerate(line) if byte in b':,{}[]"']
    if len(marks) < 2:
        return line
    index = dice.randrange(len(marks) - 1)
    return line[: marks[index] + 1] + dice.choice(TOKENS) + line[marks[index + 1] :]


def _flip(line: bytes, dice: random.Random) -> bytes:
    if not line:
        return line
    at = dice.randrange(len(line))
    return line[:at] + bytes([line[at] ^ (1 << dice.randrange(8))]) + line[at + 1 :]


def _repeat(line: bytes, dice: random.Random) -> bytes:
    start, end = sorted((_place(line, dice), _place(line, dice)))
    return line[:end] + line[start:end] * dice.choice((1, 2, 5)) + line[end:]


def _swap(line: bytes, dice: random.Random) -> bytes:
    start, end = sorted((_place(line, dice), _place(line, dice)))
    return line[end:] + line[start:end] + line[:start]


def _splice(line: bytes, dice: random.Random) -> bytes:
    other = dice.choice(GOOD)
    return line[: _place(line, dice)] + other[_place(other, dice) :]
