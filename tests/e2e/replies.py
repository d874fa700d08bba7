"""Texts that the scenes of `playhouse.py` play: what a page must draw well, and what it must not obey."""

LINKS = """See [the guide][g], [other][o] and [guide].

- one
- two

Words with a footnote[^1].

[g]: https://example.com/guide
[guide]: https://example.com/short
[^1]: https://example.com/footnote

| a | b |
|---|---|
| [x][g] | 2 |

Defined later: [o].

[o]: https://example.com/other
"""

HEADINGS = "# One\n\n## Two\n\n### Three\n\n#### Four\n\nA **bold** word."

EVIL = """Raw HTML is text: <img src=x onerror="window.__pwned=1"> <script>window.__pwned=1</script>

[a link](javascript:window.__pwned=1) and [another](data:text/html,<script>window.__pwned=1</script>) and <https://example.com/?q=1>

![picture](javascript:alert(1)) ![remote](https://example.com/track.png)

<div onclick="window.__pwned=1">block **html**</div>

```html"><img src=x onerror="window.__pwned=1">
<b>code</b>
```
"""

CAUSE = """Here is what I found.

## The cause

`login()` reads `user.password` before it knows that there **is** a user.

1. The comparison is not constant time.
2. The token is predictable.

| file | lines | risk |
|---|---:|:---:|
| `src/login.py` | 12 | high |

```python
def login(name: str, password: str) -> str:
    user = find(name)
    if user is None:
        raise WrongPassword(name)  # the same words for both
    return user.token
```

> A wrong name and a wrong password must look the same.
"""

LONG_CHARS = 200_000
_PROSE = "The parser reads a line, **decides** what it is, and hands it to `handle()`. Some more words follow it.\n\n"
_LINE = '    return Event(kind=kind, value=rest.strip(), note="a line of code that is neither short nor long")\n'


def long_reply(kind: str) -> str:
    """200 kB that begin with "Begin." and end with "The end." """
    unit, opening = (_LINE, "```python\n# Begin.\n") if kind == "code" else (_PROSE, "Begin. ")
    ending = "```\n\nThe end." if kind == "code" else "\n\nThe end."
    return opening + (unit * (LONG_CHARS // len(unit) + 1))[:LONG_CHARS].rstrip() + "\n" + ending
