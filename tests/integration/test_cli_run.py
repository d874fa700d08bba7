"""`hames run`: what goes in, what comes out, and the number it ends with."""

import base64
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
ASKS = [{"say": "I will look."}, {"call": "shell", "with": {"command": "rm -rf build"}}]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_answer_is_on_stdout_and_the_rest_is_not(shell: Shell) -> None:
    model = shell.script([{"call": "glob", "with": {"pattern": "*"}}], "All \x1b]0;evil\x07done.")
    done = shell.hames("run", "go", "--model", model)
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert "· glob pattern=*" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_prompt_comes_from_stdin_a_file_or_both_words_and_file(shell: Shell) -> None:
    (shell.workspace / "task.txt").write_text("of the file")
    for words, stdin, expected in (
        ((), "from stdin", "from stdin"),
        (("-",), "from a dash", "from a dash"),
        (("--file", "task.txt"), "", "of the file"),
        (("the words", "--file", "-"), "of the pipe", "the words\n\nof the pipe"),
    ):
        done = shell.hames("run", *words, "--json", "--model", "scripted/hello", stdin=stdin)
        (said,) = [
            event["item"]["content"][0]["text"]
            for event in events(done.stdout)
            if event["type"] == "item.completed" and event["item"]["type"] == "userMessage"
        ]
        assert said == expected
    nothing = shell.hames("run", "--model", "scripted/hello")
    assert nothing.returncode == 2
    assert "the prompt is missing" in nothing.stderr


def test_json_is_one_event_a_line_and_ends_with_the_result(shell: Shell) -> None:
    done = shell.hames("run", "go", "--json", "--model", shell.script("Two words."))
    told = events(done.stdout)
    kinds = [event["type"] for event in told]
    assert kinds[:2] == ["thread", "turn.started"]
    assert kinds[-2:] == ["turn.completed", "result"]
    assert set(kinds) <= documented()
    assert told[-1] == {
        "type": "result",
        "threadId": told[0]["threadId"],
        "outcome": "completed",
        "exitCode": 0,
        "answer": "Two words.",
        "usage": told[-1]["usage"],
    }


def documented() -> set[str]:
    """The types of events that docs/ci.md names."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text()
    return {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}


def test_a_failure_is_one_and_says_why(shell: Shell) -> None:
    done = shell.hames("run", "go", "--model", shell.script([{"fail": "the model is on holiday"}]))
    assert done.returncode == 1
    assert "failed: the model is on holiday" in done.stderr


def test_a_question_with_nobody_there_is_three_and_nothing_ran(shell: Shell) -> None:
    (shell.workspace / "build").mkdir()
    done = shell.hames("run", "go", "--model", shell.script(ASKS, "Done."))
    assert done.returncode == 3
    assert "$ rm -rf build" in done.stderr
    assert (shell.workspace / "build").is_dir()
    told = events(shell.hames("run", "go", "--json", "--model", shell.script(ASKS, "Done.")).stdout)
    assert [event["params"]["command"] for event in told if event["type"] == "approval.needed"] == ["rm -rf build"]
    assert (told[-1]["outcome"], told[-1]["exitCode"]) == ("needsApproval", 3)


@pytest.mark.needs("bwrap")
def test_the_thread_goes_on_where_it_needed_an_approval(shell: Shell) -> None:
    (shell.workspace / "build").mkdir()
    model = shell.script(ASKS, ASKS, "Gone.")
    first = shell.hames("run", "go", "--model", model)
    assert first.returncode == 3
    again = shell.hames("run", "--continue", "go on", "--approval-policy", "never", "--model", model)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "Gone."), again.stderr
    assert not (shell.workspace / "build").exists()


def test_continue_and_thread_name_the_same_thread(shell: Shell) -> None:
    model = shell.script("One.", "Two.", "Three.")
    first = events(shell.hames("run", "a", "--json", "--model", model).stdout)[0]["threadId"]
    second = events(shell.hames("run", "b", "--continue", "--json", "--model", model).stdout)
    third = events(shell.hames("run", "c", "--thread", first, "--json", "--model", model).stdout)
    assert second[0]["threadId"] == third[0]["threadId"] == first
    assert (second[-1]["answer"], third[-1]["answer"]) == ("Two.", "Three.")
    missing = shell.hames("run", "d", "--thread", "ses_nothing", "--model", model)
    assert missing.returncode == 1
    assert "ses_nothing" in missing.stderr


def test_an_answer_fits_its_schema_or_is_asked_for_once_more(shell: Shell) -> None:
    schema = shell.folder / "schema.json"
    schema.write_text(json.dumps({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}))
    wanted = ("run", "count", "--output-schema", str(schema), "--model")

    right = shell.hames(*wanted, shell.script('```json\n{"n": 3}\n```', name="right"))
    assert (right.returncode, json.loads(right.stdout)) == (0, {"n": 3})

    second = shell.hames(*wanted, shell.script("three", '{"n": 3}', name="second"))
    assert (second.returncode, json.loads(second.stdout)) == (0, {"n": 3})

    never = shell.hames(*wanted, shell.script('{"n": "3"}', "no", name="never"))
    assert (never.returncode, never.stdout) == (1, "")
    assert "does not match the schema" in never.stderr


def test_a_signal_interrupts_the_turn_and_is_130(shell: Shell) -> None:
    running = shell.start("run", "go", "--json", "--model", shell.script([{"say": "Begun."}, {"hang": True}]))
    assert running.stdout is not None
    for line in running.stdout:
        if '"item.delta"' in line:
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    told = events(out)
    assert running.returncode == 130, err
    assert [event["status"] for event in told if event["type"] == "turn.completed"] == ["interrupted"]
    assert told[-1]["outcome"] == "interrupted"


def test_a_reader_that_leaves_gets_no_traceback(shell: Shell) -> None:
    running = shell.start("run", "go", "--json", "--model", shell.script("word " * 3000))
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.wait(timeout=30) == 1
    assert running.stderr.read() == ""
    running.stderr.close()


def test_pictures_files_and_selectors_reach_the_turn(shell: Shell) -> None:
    (shell.workspace / "notes.md").write_text("x")
    (shell.workspace / "shot.png").write_bytes(base64.b64decode(PIXEL))
    words = ("run", "see @notes.md", "--json", "--model", shell.script("ok", "ok"))
    told = events(shell.hames(*words, "--image", "shot.png").stdout)
    (content,) = [
        event["item"]["content"] for event in told if event["type"] == "item.completed" and "content" in event["item"]
    ]
    assert [part["type"] for part in content] == ["text", "file", "localImage"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "x", "--option", "nonsense"), "ID=VALUE"),
        (("run", "x", "--output-schema", "missing.json"), "no file"),
        (("run", "x", "--cwd", "/nowhere"), "no directory"),
        (("run", "x", "--approval-policy", "maybe"), "must be one of"),
    ],
)
def test_a_bad_option_is_two_and_one_sentence(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    done = shell.hames(*words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--model", "nope"), "hames: no model 'nope'; try anthropic/claude-sonnet-5-5\n"),
        (("--option", "agent=nobody"), "option 'agent' has no value 'nobody'; its values are: code, plan, review\n"),
        (("--option", "foo=bar"), "hames: scripted/hello has no option 'foo'; its options are: agent\n"),
        (("--image", "/etc/passwd"), "hames: '/etc/passwd' is not a PNG, JPEG, GIF or WebP picture\n"),
    ],
)
def test_what_cannot_be_used_is_two_and_leaves_no_thread_behind(
    shell: Shell, words: tuple[str, ...], sentence: str
) -> None:
    done = shell.hames("run", "x", *words, HAMES_MODEL="scripted/hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(sentence)
    assert len(done.stderr.splitlines()) == 1
    assert shell.hames("threads").stdout == "no threads yet\n"
    (told,) = events(shell.hames("run", "x", "--json", *words, HAMES_MODEL="scripted/hello").stdout)
    assert (told["type"], told["outcome"], told["exitCode"]) == ("result", "failed", 2)
    assert sentence.endswith(told["error"] + "\n")


def test_the_answer_is_the_final_message(shell: Shell) -> None:
    model = shell.script([{"say": "First I look."}, {"call": "glob", "with": {"pattern": "*"}}], "It is done.")
    done = shell.hames("run", "go", "--json", "--model", model)
    assert events(done.stdout)[-1]["answer"] == "It is done."
    assert shell.hames("run", "go", "--quiet", "--model", model).stdout == "It is done.\n"


def test_a_server_that_is_asked_for_a_model_nobody_knows_says_so_and_it_is_two(shell: Shell) -> None:
    serving = shell.start("serve", "--port", "0", "--model", "scripted/hello")
    try:
        assert serving.stdout is not None
        assert "listens" in serving.stdout.readline()
        done = shell.hames("run", "x", "--attach", "--model", "nope")
        assert (done.returncode, "no model 'nope'" in done.stderr) == (2, True)
    finally:
        serving.terminate()
        serving.communicate(timeout=30)


def test_attach_joins_the_server_that_runs_here_and_says_when_none_does(shell: Shell) -> None:
    alone = shell.hames("run", "x", "--attach")
    assert alone.returncode == 1
    assert "no server runs" in alone.stderr
    serving = shell.start("serve", "--port", "0", "--model", "scripted/hello")
    try:
        assert serving.stdout is not None
        assert "listens" in serving.stdout.readline()
        done = shell.hames("run", "x", "--attach", "--json")
        assert events(done.stdout)[-1]["outcome"] == "completed", done.stderr
        assert events(done.stdout)[0]["model"] == "scripted/hello"
    finally:
        serving.terminate()
        serving.communicate(timeout=30)


def test_an_answer_in_pieces_is_one_text_with_numbered_sources_under_it(shell: Shell) -> None:
    page = {"url": "https://a.example", "title": "A \x1b[31mpage", "quote": "3.15"}
    model = shell.script(
        [{"say": "Python "}, {"say": "3.15 is out", "cites": [page, page]}, {"say": "."}], name="cited"
    )
    done = shell.hames("run", "go", "--model", model)
    assert done.stdout == "Python 3.15 is out.\n\n[1] A \\x1b[31mpage: https://a.example\n"
    assert shell.hames("run", "go", "--quiet", "--model", model).stdout == "Python 3.15 is out.\n"
    (item,) = [
        event["item"]
        for event in events(shell.hames("run", "go", "--json", "--model", model).stdout)
        if event["type"] == "item.completed" and event["item"]["type"] == "agentMessage"
    ]
    assert [(cited["start"], cited["end"]) for cited in item["citations"]] == [(7, 18), (7, 18)]
