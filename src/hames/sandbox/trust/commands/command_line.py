"""Follows a command line the way bash does, and judges every command in every directory it may run in.

`&&` and `||` bind equally and from the left, and `cd` may fail. So there is a set of directories the shell may be in,
each with whether the last command worked. The set is bounded: a line that could end up anywhere is asked about.
"""

import os
from pathlib import Path

from hames.domain.value import Value
from hames.sandbox.paths import is_inside
from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.trust.commands.git import GitCall, check_git
from hames.sandbox.trust.commands.paths import check_path, enter_directory, expand
from hames.sandbox.trust.commands.program_checks import ONE_FILE, STAR_SAFE, ReadingCall, check_call
from hames.sandbox.trust.commands.repository import check_repository, find_repository, has_password
from hames.sandbox.trust.commands.shell_words import ShellWord, SimpleCommand
from hames.sandbox.trust.commands.versions import asks_for_version

MAX_PLACES = 16
"""Directories the shell may be in at the same point of a line."""


class ShellState(Value):
    """Where the shell may be, and whether the last command worked."""

    place: str
    worked: bool


def follow(commands: list[SimpleCommand], judge: "WorkspaceJudge") -> frozenset[ShellState]:
    """Every state the shell may be in at the end. Raises `Doubt` for a command that needs a question."""
    states = frozenset((ShellState(place=judge.cwd, worked=True),))
    for pipeline in _pipelines(commands):
        running = frozenset(state for state in states if _can_run(pipeline[0].joint, state))
        # What can never run is looked at all the same: whoever wrote it may know better.
        places = {state.place for state in running or states}
        for command in pipeline:
            judge.check(command, places)
        if running:
            states = (states - running) | _after(pipeline, running)
        if len({state.place for state in states}) > MAX_PLACES:
            raise Doubt(f"it changes directory so often that it could end in more than {MAX_PLACES} directories")
    return states


def _pipelines(commands: list[SimpleCommand]) -> list[list[SimpleCommand]]:
    pipelines: list[list[SimpleCommand]] = []
    for command in commands:
        if command.joint == "|":
            pipelines[-1].append(command)
        else:
            pipelines.append([command])
    return pipelines


def _can_run(joint: str, state: ShellState) -> bool:
    match joint:
        case "&&":
            return state.worked
        case "||":
            return not state.worked
        case _:
            return True


def _after(pipeline: list[SimpleCommand], running: frozenset[ShellState]) -> frozenset[ShellState]:
    """Any command may fail, for reasons nobody sees in its words; only `true` and `false` say it themselves."""
    first = [word.text for word in pipeline[0].words]
    if len(pipeline) == 1 and first[0] == "cd":
        entered = {ShellState(place=os.path.normpath(Path(state.place, first[1])), worked=True) for state in running}
        return frozenset(entered | {ShellState(place=state.place, worked=False) for state in running})
    outcomes = {"true": (True,), "false": (False,)}.get(pipeline[-1].words[0].text, (True, False))
    return frozenset(ShellState(place=state.place, worked=worked) for state in running for worked in outcomes)


class WorkspaceJudge:
    """What may run unasked in one workspace, for one line that starts in `cwd`."""

    def __init__(self, cwd: str, workspace: str) -> None:
        self.cwd = cwd
        self.workspace = workspace
        self.sandbox_only = False
        self._repositories: set[tuple[str, bool]] = set()
        if not is_inside(cwd, workspace):
            raise Doubt(f"`{cwd}` is outside the workspace")

    def check(self, command: SimpleCommand, places: set[str]) -> None:
        """Raises `Doubt` unless the command only reads, wherever it may run."""
        name, *words = command.words
        _check_words(name.text, words)
        for place in sorted(places):
            if name.text == "cd":
                self._check_cd(command, words, place)
                continue
            given = self._expand_words(name.text, words, place)
            if name.text == "git" and not asks_for_version("git", given):
                self._check_git(check_git(given), place)
            else:
                self._check_call(check_call(name.text, given, fed=command.fed), place)

    def _check_cd(self, command: SimpleCommand, words: list[ShellWord], place: str) -> None:
        if command.piped:
            raise Doubt("it uses `cd` in a pipeline")
        if len(words) != 1 or words[0].stars or not words[0].text or words[0].text.startswith("-"):
            raise Doubt("where this `cd` leads cannot be known in advance")
        enter_directory(words[0].text, place, self.workspace)

    def _expand_words(self, name: str, words: list[ShellWord], place: str) -> list[str]:
        given: list[str] = []
        for word in words:
            matches = expand(word, place)
            if word.stars:
                self._check_matches(name, word, matches, place)
            given += matches
        return given

    def _check_matches(self, name: str, word: ShellWord, matches: list[str], place: str) -> None:
        if word.stars[0] == 0 and name not in STAR_SAFE:
            why = f"a file name that begins with `-` would be an option of `{name}`"
            raise Doubt(f"{why} (`{word.text}`; `./*` is safe)")
        if name in ONE_FILE:
            raise Doubt(f"`{word.text}` can match several files, and `{name}` would write to the second")
        if matches == [word.text]:
            return
        for match in matches:
            if match.startswith("-"):
                raise Doubt(f"the file name `{match}` would be an option of `{name}`")
            check_path(match, place, self.workspace, reads=False)

    def _check_call(self, call: ReadingCall, place: str) -> None:
        self.sandbox_only |= call.sandbox_only
        for path in call.paths:
            check_path(path, place, self.workspace, reads=call.reads, files_only=call.files_only)
        for directory in (Path(place), *Path(place).parents) if call.unless else ():
            for name in call.unless:
                if (directory / name).exists():
                    raise Doubt(f"`{directory / name}` chooses which program runs")

    def _check_git(self, call: GitCall, place: str) -> None:
        for directory in call.directories:
            place = enter_directory(directory, place, self.workspace)
        if place not in (self.cwd, self.workspace):
            raise Doubt("git would run in another directory, which can hold another repository")
        self._check_call(call, place)
        if (place, call.shows_remotes) in self._repositories:
            return
        self._repositories.add((place, call.shows_remotes))
        repository = find_repository(place, self.workspace)
        if repository is None:
            return
        settings = check_repository(repository, self.workspace)
        if call.shows_remotes and has_password(settings):
            raise Doubt("the address of a remote has a password in it")


def _check_words(name: str, words: list[ShellWord]) -> None:
    for word in words:
        if word.special and name != "git":
            raise Doubt(f"the shell may give `{word.text}` another meaning; put it in quotes")
        if word.status and name not in ("echo", "printf"):
            raise Doubt("it uses a shell variable (`$?`), so what it reads cannot be known in advance")
