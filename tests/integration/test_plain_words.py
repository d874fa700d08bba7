"""Sentences that had to be read twice, and what is there instead. Those of the terminal are tested in tests/e2e."""

from pathlib import Path

import pytest
from cli_process import Shell

ROOT = Path(__file__).parents[2]

RIDDLES = [
    "Everything else is a way in",
    "Nothing seen is lost",
    "is obeyed before you say so",
    "tells what happens from now on",
    "one room per idea",
    "shift+tab when to ask",
    "asks unless trusted",
    "May I?",
    "not known to be harmless",
    "reject with a word",
    "a word to the model",
    "the answer broke off",
    "what was shown of it is void",
    "the queue is held",
    "sees a summary of what is above",
    "enter takes",
    "esc leaves",
    "stop the turn; back to the end",
    "may be obeyed",
    "not obeyed",
    "nobody is asked here",
    "means nothing with --attach",
    "Keys are deaf",
    "Where nobody is, a question is declined",
    "the agent goes on without us",
    "it is more than plain commands",
    "may I?",
    "goes to a person or to nobody",
    "hears a no",
    "the user's own below, private above",
    "Who may come in",
    "without a sandbox by name",
    "a sentence without a subject",
    "nobody else's business",
    "sent by the thousand",
    "is another matter: a call",
    "say more of it",
    "is one word too many",
    "go by that name",
    "to be judged anew",
    "says nothing - at",
    "the disk did not keep it",
    "speaks of: ",
    "did not let us through",
    "nothing gets done without",
    "I have been there",
    "a door to the threads",
    "the exit code is the outcome",
]


def texts() -> dict[Path, str]:
    """What users read, or may come to read: documents, and every sentence in the code."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src" / "hames").rglob("*.py")]
    found += [path for path in (ROOT / "web" / "apps" / "page" / "src").rglob("*") if path.suffix in (".ts", ".tsx")]
    return {path: " ".join(path.read_text().split()) for path in found}


@pytest.mark.parametrize("words", RIDDLES)
def test_a_riddle_is_nowhere(words: str) -> None:
    assert [str(path.relative_to(ROOT)) for path, text in texts().items() if words in text] == []


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", "Hames is a coding agent for your terminal and browser"),
        ("README.md", "Anything shown on screen survives a crash"),
        ("README.md", "A cloned repository's configuration is ignored until you trust it"),
        (
            "docs/page.md",
            "so that a letter meant for the message approves nothing",
        ),
        ("docs/server.md", "If no client can answer, an approval is declined after ten minutes"),
        ("docs/server.md", "Clients that know only the specification don't count"),
    ],
)
def test_a_document_says_it_plainly(page: str, words: str) -> None:
    assert words in " ".join((ROOT / page).read_text().split())


def test_the_command_line_says_it_plainly(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (shell.workspace / "hames.toml").write_text('model = "scripted/other"\n')
    sentence = "hames.toml is ignored because this project is not trusted. Run `hames trust`"
    assert "allow this project's own configuration" in shell.hames("help").stdout
    assert sentence in shell.hames("doctor").stdout
    attached = shell.hames("app-server", "--attach", "--model", "scripted/hello").stderr
    assert "--model can't be used with --attach; the running server sets it" in attached
