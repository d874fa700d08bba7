"""`hames` in a real terminal: a pty of tmux, keys as they are typed, the screen as it is seen."""

import base64
import json
import time

import pytest
from tmux_terminal import Terminal, script

pytestmark = pytest.mark.needs("tmux")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@pytest.mark.needs("bwrap")
def test_a_turn_with_an_approval_and_one_that_is_interrupted(terminal: Terminal) -> None:
    model = script(
        terminal,
        [
            {"say": "I make a file."},
            {"call": "shell", "with": {"command": "rm -rf old; echo '\x1b[32mmade\x1b[0m' | tee new"}},
        ],
        "**It is there.**",
        [{"say": "Now I wait."}, {"hang": True}],
    )
    terminal.start("--model", model)
    terminal.shows("Say what you want done.", "ask for risky actions")

    terminal.types("make a file")
    terminal.shows("│ make a file")
    terminal.presses("Enter")
    terminal.shows("Allow this command?", "$ rm -rf old; echo '\\x1b[32mmade\\x1b[0m' | tee new", "y allow once")
    assert not (terminal.workspace / "new").exists()
    time.sleep(0.4)  # keys count only after a moment on the screen
    terminal.presses("y")
    terminal.shows("│ made", "✓", "It is there.")
    assert (terminal.workspace / "new").exists()

    terminal.types("and then")
    terminal.presses("Enter")
    terminal.shows("Now I wait.", "working")
    terminal.presses("Escape")
    screen = terminal.shows("■ interrupted")
    assert "working" not in screen

    terminal.presses("C-d")
    terminal.shows("ended with 0")


def test_it_goes_on_with_the_last_thread_and_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    terminal.start("--model", script(terminal, "The first answer.", "The second."))
    terminal.shows("Say what you want done.")
    terminal.types("one")
    terminal.presses("Enter")
    terminal.shows("The first answer.")
    terminal.presses("C-c")
    terminal.presses("C-c")
    screen = terminal.shows("ended with 0")
    assert "The first answer." not in screen
    assert terminal.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag}").strip() == "0 0"
    terminal.close()

    terminal.start("tui", "--continue", "--model", f"scripted/{terminal.workspace.parent / 'script.json'}")
    terminal.shows("› one", "The first answer.")


def test_a_day_s_work_files_steering_a_queue_a_picture_and_threads(terminal: Terminal) -> None:
    (terminal.workspace / "cart.py").write_text("x = 1\n")
    picture = terminal.workspace / "shot.png"
    picture.write_bytes(base64.b64decode(PIXEL))
    look = {"call": "glob", "with": {"pattern": "*"}}
    model = script(
        terminal,
        "First answer.",
        [{"say": "Long work."}, {"wait_ms": 6000}, look],
        "Steered answer.",
        "Queued answer.",
        "Saw it.",
        "In the copy.",
    )
    terminal.start("--model", model, columns=100)
    terminal.shows("Say what you want done.", "ask for risky actions")
    terminal.types("look at @car")
    terminal.shows("  @cart.py")
    terminal.presses("Tab", "Enter")
    terminal.shows("› look at @cart.py", "[file cart.py]", "First answer.")

    terminal.types("work")
    terminal.presses("Enter")
    terminal.shows("Long work.", "tab queue")
    terminal.types("rather so")
    terminal.presses("Enter")
    terminal.shows("› rather so")
    terminal.types("and later")
    terminal.presses("Tab")
    terminal.shows("1. queued: and later")
    terminal.shows("Steered answer.", "› and later", "Queued answer.")

    terminal.tmux("set-buffer", str(picture))
    terminal.tmux("paste-buffer", "-p")
    terminal.shows("shot.png ")
    terminal.types("what is it")
    terminal.presses("Enter")
    terminal.shows("[image shot.png]", "Saw it.")

    terminal.types("/rename My work")
    terminal.presses("Enter")
    terminal.shows("hames  My work")
    terminal.types("/fork")
    terminal.presses("Enter")
    terminal.shows("This is a copy")
    terminal.types("on")
    terminal.presses("Enter")
    terminal.shows("In the copy.")
    terminal.presses("C-t")
    terminal.shows("● My work", "  My work", "just now")
    terminal.types("nobody said this")
    terminal.shows("╭─ Threads", "nobody said this")
    terminal.hides("just now")
    terminal.presses("Escape")
    terminal.hides("╭─ Threads")
    terminal.types("/archive")
    terminal.presses("Enter")
    terminal.shows("Archived. To list archived threads: hames threads --archived")


def test_lines_break_with_control_j_and_a_paste_is_one_prompt(terminal: Terminal) -> None:
    terminal.start("--model", "scripted/hello")
    terminal.shows("Say what you want done.")
    terminal.types("first")
    terminal.presses("C-j")
    terminal.types("second")
    terminal.shows("│ first", "│ second")
    terminal.tmux("set-buffer", "pasted one\npasted two")
    terminal.tmux("paste-buffer", "-p")
    terminal.shows("pasted two")
    terminal.presses("Enter")
    terminal.shows("› first", "secondpasted one", "pasted two", "no network")


def test_without_colour_no_colour_is_written(terminal: Terminal) -> None:
    terminal.start("--model", "scripted/hello", "--theme", "dark", NO_COLOR="1")
    terminal.shows("Say what you want done.")
    terminal.types("hi")
    terminal.presses("Enter")
    terminal.shows("› hi", "no network")
    shown = terminal.screen(escapes=True)
    for part in shown.split("\x1b[")[1:]:
        codes = part.split("m")[0].split(";")
        if codes[:2] in (["38", "2"], ["48", "2"]):
            assert len(set(codes[2:5])) == 1, codes


def test_nothing_of_a_model_reaches_the_terminal_raw(terminal: Terminal) -> None:
    evil = "before \x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[2J\x1b[Hafter \x9b31mred"
    terminal.start("--model", script(terminal, evil))
    terminal.shows("Say what you want done.")
    terminal.types("hi")
    terminal.presses("Enter")
    terminal.shows("› hi", "before after red")
    assert "owned" not in terminal.tmux("display-message", "-p", "#{pane_title}")
    assert terminal.tmux("list-buffers").strip() == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--model", "nobody/knows"), "hames: no model 'nobody/knows'; try "),
        (("--cwd", "/nowhere"), "hames: no directory '/nowhere'; name one that exists with --cwd"),
        (("--data-dir", "/etc/passwd"), "hames: threads cannot be saved in '/etc/passwd'"),
    ],
)
def test_what_cannot_start_is_a_sentence_and_no_screen(
    terminal: Terminal, words: tuple[str, ...], sentence: str
) -> None:
    terminal.start(*words)
    screen = terminal.shows(sentence, "ended with 2")
    assert "Say what you want" not in screen


def test_without_a_key_it_says_so_before_anything_is_asked(terminal: Terminal) -> None:
    terminal.start()
    terminal.shows("Say what you want done.", "! no key for Anthropic: run `hames setup`", "hames login anthropic")


@pytest.mark.needs("bwrap")
def test_run_in_a_terminal_moves_asks_and_goes_on(terminal: Terminal) -> None:
    model = script(
        terminal,
        [{"wait_ms": 1500}, {"call": "shell", "with": {"command": "rm -rf old; echo made > new"}}],
        "It is there.",
    )
    terminal.start("run", "go", "--model", model)
    terminal.shows(" s · thinking")
    terminal.shows("$ rm -rf old; echo made > new", "[y]es, [a]lways, [n]o:")
    terminal.types("y")
    terminal.presses("Enter")
    screen = terminal.shows("It is there.", "ended with 0")
    assert "thinking" not in screen
    assert (terminal.workspace / "new").exists()


def test_a_thread_is_removed_only_after_a_yes(terminal: Terminal) -> None:
    folder = terminal.workspace / ".harness" / "threads"
    terminal.start("run", "go", "--model", "scripted/hello")
    terminal.shows("ended with 0")
    terminal.close()
    terminal.start("threads", "rm", "last")
    terminal.shows("Delete this thread permanently? [y/N]")
    terminal.presses("Enter")
    terminal.shows("kept", "ended with 1")
    assert len(list(folder.iterdir())) == 1
    terminal.close()
    terminal.start("threads", "rm", "last")
    terminal.shows("Delete this thread permanently? [y/N]")
    terminal.types("y")
    terminal.presses("Enter")
    terminal.shows("removed", "ended with 0")


def test_what_is_ignored_missing_or_refused_is_said_on_the_screen(terminal: Terminal) -> None:
    (terminal.workspace / "hames.toml").write_text('model = "scripted/evil"\n')
    config = terminal.workspace.parent / "config.toml"
    config.write_text('[mcp_servers.files]\ncommand = "/nonexistent/server"\n')
    script = terminal.workspace.parent / "script.json"
    refused = {"command": "ls", "unsandboxed": True, "justification": "because"}
    script.write_text(json.dumps([[{"call": "shell", "with": refused}], "Done."]))
    terminal.start(
        "--model", f"scripted/{script}", "--approval-policy", "never", columns=120, rows=40, HAMES_CONFIG=str(config)
    )
    terminal.shows("! hames.toml is ignored because this project is not trusted. Run `hames trust`")
    terminal.types("go")
    terminal.presses("Enter")
    screen = terminal.shows(
        "Done.",
        "! MCP server 'files' is not available: program not found: '/nonexistent/server'.",
        "│ Blocked: approvals are off (`never`), so commands can't leave the sandbox",
    )
    assert screen.count("is ignored because") == 1
    terminal.types("/mcp")
    terminal.presses("Enter")
    terminal.shows("files  /nonexistent/server  (failed: program not found: '/nonexistent/server')")
