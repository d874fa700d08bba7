"""A small project with a bug, and a conversation that finds and fixes it: what the documentation shows."""

from collections.abc import Sequence
from pathlib import Path

from hames.testing.fakes.model import Step, call, say, think, usage

SIGN_IN = '''"""Signing in."""

from accounts.users import find


class WrongPassword(Exception):
    """One answer for a wrong name and a wrong password: nobody learns which names exist."""


def sign_in(name: str, password: str) -> str:
    user = find(name)
    if user.password == password:
        return user.token
    raise WrongPassword(name)


def sign_out(token: str) -> None:
    sessions.discard(token)


sessions: set[str] = set()
'''

USERS = '''"""Who there is."""

from dataclasses import dataclass


@dataclass
class User:
    name: str
    password: str
    token: str


USERS = {"ada": User("ada", "countess", "t-1"), "alan": User("alan", "enigma", "t-2")}


def find(name: str) -> User | None:
    return USERS.get(name)
'''

TESTS = """import unittest

from accounts.signin import WrongPassword, sign_in


class SignIn(unittest.TestCase):
    def test_the_right_password_is_let_in(self):
        self.assertEqual(sign_in("ada", "countess"), "t-1")

    def test_a_wrong_password_is_refused(self):
        with self.assertRaises(WrongPassword):
            sign_in("ada", "duchess")
"""

TRIED = 'python3 -c \'from accounts.signin import sign_in; sign_in("nobody", "x")\''
CHECKED = "python3 -m unittest discover -s tests -t ."
COMMITTED = "git add -A && git commit -m 'An unknown name is refused like a wrong password'"

CAUSE = """Here is what I found.

### The cause

`find()` answers `None` for a name it does not know, and `sign_in()` asks that `None` for a password:

```python
user = find(name)            # None
if user.password == password:  # AttributeError
```

There is a second problem on the same line: the time that `==` takes says how much of a password is right.

| input | before | after |
|---|---|---|
| known name, right password | token | token |
| known name, wrong password | `WrongPassword` | `WrongPassword` |
| **unknown name** | **crash** | `WrongPassword` |

I will write the test first, then fix both.
"""

DONE = """Done: an unknown name is refused like a wrong password, and both take the same time.

- `accounts/signin.py` checks for `None` and compares in constant time
- `tests/test_signin.py` has a test that failed before
"""

STEPS = ("Find out why unknown names crash", "Write a test that fails", "Compare in constant time", "Commit")


def plan(done: int) -> Step:
    words = ["completed"] * done + ["inProgress"] + ["pending"] * len(STEPS)
    entries = [{"step": step, "status": word} for step, word in zip(STEPS, words, strict=False)]
    return call("plan", explanation="Fix the sign-in, with a test first.", entries=entries)


TOUR: Sequence[Sequence[Step]] = [
    [
        think("A crash for unknown names. I should see where names are looked up before I run anything."),
        say("I'll look at how names are found, and try one that is unknown."),
        plan(0),
        call("shell", command="grep -rn --color=always user accounts"),
        call("shell", command=TRIED),
        usage(input_tokens=9_120, output_tokens=412),
    ],
    [
        say(CAUSE),
        plan(1),
        call(
            "edit",
            path="tests/test_signin.py",
            old_string='            sign_in("ada", "duchess")\n',
            new_string='            sign_in("ada", "duchess")\n\n'
            "    def test_an_unknown_name_is_refused_like_a_wrong_password(self):\n"
            "        with self.assertRaises(WrongPassword):\n"
            '            sign_in("nobody", "secret")\n',
        ),
        call(
            "edit",
            path="accounts/signin.py",
            old_string="    if user.password == password:\n        return user.token\n    raise WrongPassword(name)\n",
            new_string='    known = user.password if user else ""\n'
            "    if not hmac.compare_digest(known, password) or user is None:\n"
            "        raise WrongPassword(name)\n"
            "    return user.token\n",
        ),
        call(
            "edit",
            path="accounts/signin.py",
            old_string="from accounts.users import find\n",
            new_string="import hmac\n\nfrom accounts.users import find\n",
        ),
        usage(input_tokens=11_870, output_tokens=980),
    ],
    [
        say("Now the whole suite."),
        plan(3),
        call("shell", command=CHECKED),
        usage(input_tokens=13_310, output_tokens=120),
    ],
    [call("shell", command=COMMITTED), usage(input_tokens=13_900, output_tokens=90)],
    [say(DONE)],
]


def build(workspace: Path) -> None:
    for name, text in {
        "accounts/__init__.py": "",
        "accounts/signin.py": SIGN_IN,
        "accounts/users.py": USERS,
        "tests/__init__.py": "",
        "tests/test_signin.py": TESTS,
    }.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
