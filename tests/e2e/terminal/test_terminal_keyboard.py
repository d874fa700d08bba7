"""The keyboard in a real terminal: clicks, questions, modes, sizes."""

import time

import pytest
from tmux_terminal import READY, SECONDS, TOUCH, Terminal, armed, ready, script

pytestmark = pytest.mark.needs("tmux")


# -- the keyboard


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("words", ["yes, and then some", "also look at it", "no way"])
def test_words_typed_at_once_answer_no_question_and_one_letter_does(terminal: Terminal, words: str) -> None:
    ready(terminal, "--model", script(terminal, [TOUCH], "It is made."))
    terminal.types("make it")
    terminal.presses("Enter")
    armed(terminal)
    terminal.types(words)  # one write, as from somebody who types fast or a terminal without paste brackets
    terminal.shows(f"│ {words} ", "Allow this command?")
    assert not (terminal.workspace / "made").exists()
    terminal.hides(f"│ {words} ")  # the question has the keys again
    armed(terminal)
    terminal.types("y")
    terminal.shows("It is made.", f"│ {words} ")
    assert (terminal.workspace / "made").exists()


@pytest.mark.parametrize("where", ["transcript", "header", "status line", "scroll bar", "drag", "tab", "shift"])
def test_letters_paste_and_enter_reach_the_message_box_whatever_was_clicked(terminal: Terminal, where: str) -> None:
    ready(terminal, "--model", script(terminal, "One.", "Two."))
    terminal.types("first")
    terminal.presses("Enter")
    terminal.shows("One.")
    match where:
        case "transcript":
            terminal.click(*terminal.place("One."))
        case "header":
            terminal.click(3, 0)
        case "status line":
            terminal.click(10, 23)
        case "scroll bar":
            terminal.click(79, 3)
        case "drag":
            column, row = terminal.place("One.")
            terminal.drag(column, row, column + 3, row)
        case "tab":
            terminal.presses("Tab")
        case _:
            terminal.presses("BTab", "BTab", "BTab")
    terminal.types("typed ")
    terminal.pastes("pasted")
    terminal.shows("│ typed pasted")
    terminal.presses("Enter")
    terminal.shows("› typed pasted", "Two.")


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("where", ["transcript", "panel", "tab", "header"])
def test_an_approval_is_answered_with_its_keys_wherever_somebody_clicked(terminal: Terminal, where: str) -> None:
    ready(terminal, "--model", script(terminal, [{"say": "I make it."}, TOUCH], "It is made."))
    terminal.types("make it")
    terminal.presses("Enter")
    terminal.shows("Allow this command?", "$ touch made", "waiting for approval", "Always allow covers")
    assert "running" not in terminal.screen()
    armed(terminal)
    match where:
        case "transcript":
            terminal.click(*terminal.place("I make it."))
        case "panel":
            terminal.click(*terminal.place("$ touch made"))
        case "tab":
            terminal.presses("Tab", "Tab")
        case _:
            terminal.click(2, 0)
    terminal.types("y")
    terminal.shows("It is made.")
    assert (terminal.workspace / "made").exists()
    terminal.types("and so on")
    terminal.shows("│ and so on")


@pytest.mark.needs("bwrap")
def test_a_reason_that_is_being_typed_is_never_taken_for_an_answer(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, [TOUCH], "Understood."))
    terminal.types("make it")
    terminal.presses("Enter")
    armed(terminal)
    terminal.types("r")
    terminal.shows("why not, or what to do instead")
    terminal.types("no, ")
    terminal.presses("Tab")
    terminal.click(*terminal.place("$ touch made"))
    terminal.types("say y")
    terminal.shows("no, say y")
    terminal.presses("Enter")
    terminal.shows("Understood.", "› no, say y")
    assert not (terminal.workspace / "made").exists()


@pytest.mark.needs("bwrap")
def test_a_question_that_came_behind_a_list_has_the_keys_when_the_list_is_closed(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, [{"wait_ms": 1500}, TOUCH], "It is made."), columns=200)
    terminal.types("make it")
    terminal.presses("Enter")
    terminal.shows("working")
    terminal.presses("C-l")
    terminal.shows("╭─ Model", "╭─ Allow this command?")
    terminal.presses("Escape")
    terminal.hides("Type a message.")
    armed(terminal)
    terminal.types("y")
    terminal.shows("It is made.")


def test_keys_typed_before_the_screen_is_loaded_are_not_lost(terminal: Terminal) -> None:
    terminal.start("--model", script(terminal, "One."))
    terminal.shows(READY)
    terminal.types("typed early")
    terminal.presses("Enter")
    terminal.shows("› typed early", "One.")


def test_errors_may_go_to_a_file_and_letters_to_a_narrow_encoding(terminal: Terminal) -> None:
    terminal.start_shell()
    terminal.types("PYTHONIOENCODING=latin-1 hames --model scripted/hello 2> errors")
    terminal.presses("Enter")
    terminal.shows(READY, "F1 keys")
    terminal.types("hello")
    terminal.presses("Enter")
    terminal.shows("no network")
    terminal.presses("C-d")
    terminal.shows("To continue: hames")
    assert (terminal.workspace / "errors").read_text() == ""


# -- modes


def test_plan_mode_is_seen_entered_and_left(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, "One."), columns=160)
    terminal.shows("Sandbox: workspace only")
    terminal.types("/plan")
    terminal.presses("Enter")
    terminal.shows("Mode: plan (changes nothing)", "Sandbox: read-only", "Plan mode is on")
    terminal.types("hello")
    terminal.presses("Enter")
    terminal.shows("One.")
    terminal.types("/status")
    terminal.presses("Enter")
    terminal.shows("mode       plan", "sandbox    read-only (plan mode; otherwise workspace only)")
    terminal.presses("C-p")
    terminal.shows("Plan mode is off", "Sandbox: workspace only")
    terminal.hides("Mode: plan (changes nothing)")
    terminal.presses("C-p")
    terminal.shows("Mode: plan (changes nothing)")
    terminal.presses("C-d")
    terminal.shows("ended with 0")
    terminal.close()
    terminal.start("--continue", columns=160)
    terminal.shows("One.", "Mode: plan (changes nothing)", "Sandbox: read-only")


def test_a_mode_chosen_from_the_options_is_seen_as_well(terminal: Terminal) -> None:
    ready(terminal, "--model", script(terminal, "One."), columns=120)
    terminal.presses("C-g")
    terminal.shows("╭─ Options", "Agent")
    terminal.types("Agent")
    terminal.presses("Enter")
    terminal.shows("╭─ Agent", "Review")
    terminal.types("Review")
    terminal.presses("Enter")
    terminal.shows("╭─ Options", without="╭─ Agent")  # it is open again: only now is there something to close
    terminal.presses("Escape")
    terminal.shows("Mode: review (changes nothing)", "Sandbox: read-only")


# -- sizes


def test_after_a_resize_everything_is_laid_out_for_the_new_size(terminal: Terminal) -> None:
    usage = {"usage": {"input_tokens": 60_000, "output_tokens": 500}}
    ready(terminal, "--model", script(terminal, [{"say": "One."}, usage]), columns=120, rows=40)
    terminal.types("hello")
    terminal.presses("Enter")
    terminal.shows("One.", "tokens")
    for columns, rows in ((80, 24), (200, 50), (100, 30)):
        terminal.resize(columns, rows)
        until = time.monotonic() + SECONDS
        while True:
            lines = terminal.screen().split("\n")
            header, status = lines[0], lines[rows - 1]
            if header.rstrip().endswith("~/ws") and len(header.rstrip()) == columns - 1 and "60.5k" in status:
                break
            assert time.monotonic() < until, terminal.screen()
        assert len(status.rstrip()) == columns - 1, status
        assert "hello" in header


def test_an_open_list_and_the_help_follow_a_resize(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello", columns=120, rows=40)
    for key, word in (("F1", "╭─ Help"), ("C-l", "╭─ Model")):
        terminal.resize(120, 40)
        terminal.presses(key)
        terminal.shows(word)
        terminal.resize(70, 30)
        until = time.monotonic() + SECONDS
        while max(len(row.rstrip()) for row in terminal.screen().split("\n")) > 70 or word not in terminal.screen():
            assert time.monotonic() < until, terminal.screen()
        terminal.presses("Escape")
        # A screen that is being drawn anew lacks the word for a moment; once it is closed the box below is whole, too.
        terminal.shows("Type a message.", without=word)


def test_undo_is_on_a_key_of_its_own(terminal: Terminal) -> None:
    ready(terminal, "--model", "scripted/hello")
    terminal.types("one")
    terminal.pastes(" two")
    terminal.shows("│ one two")
    terminal.presses("C-_")
    terminal.hides("one two")
    terminal.shows("│ one")


# -- what is asked


@pytest.mark.needs("bwrap")
def test_in_auto_mode_work_in_the_sandbox_asks_nothing_and_leaving_it_asks(terminal: Terminal) -> None:
    write = {"call": "write", "with": {"path": "written", "content": "1\n"}}
    leave = {"command": "touch left", "unsandboxed": True, "justification": "it has to be outside"}
    model = script(terminal, [write], [TOUCH], [{"call": "shell", "with": leave}], "It is done.")
    ready(terminal, "--model", model, "--approval-policy", "onRequest")
    terminal.types("make them")
    terminal.presses("Enter")
    armed(terminal)
    screen = terminal.shows("Runs outside the sandbox: it has to be outside", "$ touch left", "± written")
    assert screen.count("waiting for approval") == 1
    assert {"written", "made"} <= {path.name for path in terminal.workspace.iterdir()}
    assert not (terminal.workspace / "left").exists()
    terminal.presses("y")
    terminal.shows("It is done.")
    assert (terminal.workspace / "left").exists()


@pytest.mark.needs("bwrap")
def test_a_rule_for_the_project_is_shown_before_it_is_kept_and_holds_in_the_next_thread(terminal: Terminal) -> None:
    touch = [[{"call": "shell", "with": {"command": f"touch {name}"}}] for name in ("one", "two")]
    ready(
        terminal, "--model", script(terminal, *touch, "It is done."), "--approval-policy", "unlessTrusted", columns=120
    )
    terminal.types("make them")
    terminal.presses("Enter")
    armed(terminal)
    terminal.shows("Allow this command?", "`touch` creates a file", "$ touch one", "p keeps this rule: allow `touch *`")
    terminal.presses("p")
    screen = terminal.shows("$ touch two", "It is done.")
    assert "Allow this command?" not in screen
    terminal.types("/new")
    terminal.presses("Enter")
    terminal.hides("It is done.")
    for name in ("one", "two"):
        (terminal.workspace / name).unlink()
    terminal.types("make them again")
    terminal.presses("Enter")
    screen = terminal.shows("$ touch two", "It is done.")
    assert "Allow this command?" not in screen
    assert (terminal.workspace / "two").exists()
