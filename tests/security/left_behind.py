"""What commands leave behind, good and bad, as shell scripts, and the place where they are tried."""

# A script is easier to read on one line.
# ruff: noqa: E501

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from walls import Outcome, run, users, workspace

from hames.domain.value import Value
from hames.sandbox.local import LocalSandbox, SandboxSettings

GIT = "git -c user.email=me@example.org -c user.name=me -c init.defaultBranch=main -c protocol.file.allow=always"

# `$M` is the marker: outside the workspace, so a program inside cannot make it.
PRELUDE = """
set -e
evil() { printf '#!/bin/sh\\ntouch "%s"\\n' "$M"; }
script() { mkdir -p "$(dirname "$1")"; evil > "$1"; chmod 755 "$1"; }
repo() { mkdir -p "$1"; (cd "$1" && $G init -q . && echo one > file && git add file && $G commit -qm one); }
shopt -s expand_aliases
"""

OUTSIDE = (
    "git status",
    "git diff",
    "git diff HEAD~1",
    "git log -p",
    "git show",
    "git restore .",
    "$G submodule update --init",
    "$G submodule update --recursive",
    "$G merge other",
    "echo | git interpret-trailers --trailer x=1",
    "$G add -A",
    "$G commit --allow-empty -m later",
    "git stash",
    "git checkout -b later",
    "git checkout -",
    "$G rebase --continue",
    "$G rebase --skip",
    "$G cherry-pick --continue",
    "$G merge later",
    "$G fetch --all",
    "$G push -q origin HEAD:refs/heads/pushed",
    "git st",
    "git branch -vv",
    "git gc -q",
    "printf 'protocol=https\\nhost=localhost\\n\\n' | git credential fill",
    "$G commit --allow-empty",
    "git worktree list",
    "git ls-files -o",
    "git blame file",
    "$G tag -a t -m t",
    "$G pull",
    "git archive HEAD --format=evil",
)


AT_THE_TOP = tuple(
    command for command in OUTSIDE if command.split()[1] in {"status", "diff", "add", "commit", "submodule"}
)
"""What is tried at the top as well where the row is about a place below: what looks into nested repositories."""


class Row(Value):
    """`before` is what the user did; `commands` are run inside, one after the other."""

    commands: tuple[str, ...]
    places: tuple[str, ...] = ("sub",)
    before: str = ""
    repository: bool = True


def planted(*commands: str, places: tuple[str, ...] = ("sub",), before: str = "", repository: bool = True) -> Row:
    return Row(commands=commands, places=places, before=before, repository=repository)


def config(text: str, *more: str) -> Row:
    """A nested repository with this in its configuration."""
    return planted(f"repo sub; script sub/.git/x; cat >> sub/.git/config <<'END'\n{text}\nEND\n" + "; ".join(more))


HOOKS = "pre-commit post-commit post-checkout pre-push post-merge pre-rebase reference-transaction pre-auto-gc"
ALL_HOOKS = f"for h in {HOOKS} commit-msg prepare-commit-msg post-index-change fsmonitor-watchman; do script"

PLANTED: dict[str, Row] = {
    "hooks of a nested repository": planted(f"repo sub; {ALL_HOOKS} sub/.git/hooks/$h; done"),
    "hooks that are links": planted(
        "repo sub; script sub/s; for h in post-commit post-checkout pre-commit; do ln -s ../../s sub/.git/hooks/$h; done"
    ),
    "the hooks directory is a link": planted(
        f"repo sub; {ALL_HOOKS} sub/h/$h; done; rm -rf sub/.git/hooks; ln -s ../h sub/.git/hooks"
    ),
    "fsmonitor": config("[core]\n\tfsmonitor = .git/x"),
    "fsmonitor of a submodule the top knows": planted(
        "repo sub; git add sub; script sub/.git/x; git -C sub config core.fsmonitor .git/x", places=(".",)
    ),
    "hooksPath": config("[core]\n\thooksPath = h", f"{ALL_HOOKS} sub/h/$h; done"),
    "clean filter": config('[filter "x"]\n\tclean = .git/x', "echo '* filter=x' > sub/.gitattributes; touch sub/file"),
    "process filter": config('[filter "x"]\n\tprocess = .git/x', "echo '* filter=x' > sub/.git/info/attributes"),
    "smudge filter": config('[filter "x"]\n\tsmudge = .git/x', "echo '* filter=x' > sub/.gitattributes; rm sub/file"),
    "external diff": config("[diff]\n\texternal = .git/x", "echo two >> sub/file"),
    "diff command": config('[diff "x"]\n\tcommand = .git/x', "echo '* diff=x' > sub/.gitattributes; echo > sub/file"),
    "textconv": config('[diff "x"]\n\ttextconv = .git/x', "echo '* diff=x' > sub/.gitattributes; echo > sub/file"),
    "merge driver": config(
        '[merge "x"]\n\tdriver = .git/x',
        "cd sub; echo '* merge=x' > .git/info/attributes; git checkout -qb other; echo a > file; $G commit -qam a",
        "git checkout -q main; echo b > file; $G commit -qam b",
    ),
    "alias": config("[alias]\n\tst = !.git/x"),
    "editor": config("[core]\n\teditor = .git/x"),
    "askpass": config("[core]\n\taskPass = .git/x\n[credential]\n\thelper = !.git/x"),
    "ssh command": config('[core]\n\tsshCommand = .git/x\n[remote "origin"]\n\turl = ssh://localhost/x'),
    "gpg program": config("[gpg]\n\tprogram = .git/x\n[commit]\n\tgpgSign = true"),
    "upload-pack": config('[remote "origin"]\n\turl = .\n\tuploadpack = .git/x\n\treceivepack = .git/x'),
    "ext remote": config(
        '[protocol "ext"]\n\tallow = always\n[remote "origin"]\n\turl = ext::.git/x\n'
        "\tfetch = +refs/heads/*:refs/remotes/origin/*"
    ),
    "insteadOf with ext": config(
        '[protocol]\n\tallow = always\n[url "ext::.git/x "]\n\tinsteadOf = https://localhost\n'
        '[remote "origin"]\n\turl = https://localhost/x'
    ),
    "submodule update command": config(
        '[submodule "m"]\n\turl = ./m\n\tactive = true\n\tupdate = !.git/x',
        "repo sub/m; cd sub; $G submodule --quiet add ./m m || true; git config submodule.m.update '!../.git/x'",
        "$G commit -qam m; cd m; $G commit -q --allow-empty -m m",
    ),
    "tar command": config('[tar "evil"]\n\tcommand = .git/x'),
    "trailer command": config('[trailer "x"]\n\tkey = X\n\tcommand = .git/x\n\tifmissing = add', "script sub/.git/x"),
    "include": config("[include]\n\tpath = ../more", "printf '[core]\\n\\tfsmonitor = .git/x\\n' > sub/more"),
    "conditional include": config(
        '[includeIf "gitdir:**"]\n\tpath = ../more', "printf '[core]\\n\\tfsmonitor = .git/x\\n' > sub/more"
    ),
    "configuration of a worktree": config(
        "[extensions]\n\tworktreeConfig = true", "printf '[core]\\n\\tfsmonitor = .git/x\\n' > sub/.git/config.worktree"
    ),
    "a header and a key on one line": config("[core] fsmonitor = .git/x"),
    "another case": config("[CoRe]\n\tFsMonItor = .git/x"),
    "a line that goes on": config("[core]\n\tfsmonitor = \\\n.git/x"),
    "quotes in the middle": config('[core]\n\tfsmonitor = .g"it/"x'),
    "a comment that is none": config('[core]\n\tfsmonitor = ".git/x" # ; \\'),
    "lines that end in CRLF": config("[core]\r\n\tfsmonitor = .git/x\r"),
    "no space and no newline": config("[core]fsmonitor=.git/x"),
    "a key that hides behind a comment": config("[core] # comment\n\tfsmonitor=.git/x"),
    "a byte order mark": planted(
        "repo sub; script sub/.git/x; printf '\\357\\273\\277[core]\\n\\tfsmonitor = .git/x\\n' > sub/.git/config"
    ),
    "configuration that is a link": planted(
        "repo sub; script sub/.git/x; cd sub; git config core.fsmonitor .git/x; mv .git/config c; ln -s ../c .git/config"
    ),
    "a .git file": planted(
        "repo r; script r/.git/x; git -C r config core.fsmonitor ../r/.git/x; mkdir sub; echo 'gitdir: ../r/.git' > sub/.git",
        places=("sub", "r"),
    ),
    "a .git file to a directory with another name": planted(
        "repo sub; script sub/.git/x; git -C sub config core.fsmonitor data/x; mv sub/.git sub/data; "
        "echo 'gitdir: data' > sub/.git"
    ),
    "a .git file into the objects of the top": planted(
        "repo sub; script sub/.git/x; git -C sub config core.fsmonitor ../.git/objects/zz/x; mv sub/.git .git/objects/zz; "
        "echo 'gitdir: ../.git/objects/zz' > sub/.git"
    ),
    "a .git link": planted(
        "repo sub; script sub/.git/x; git -C sub config core.fsmonitor data/x; mv sub/.git sub/data; ln -s data sub/.git"
    ),
    "a common directory without HEAD": planted(
        "repo sub; cd sub; script evil/x; mkdir -p evil/hooks; cp -r .git/objects .git/refs .git/config evil/; "
        "git config -f evil/config core.fsmonitor evil/x; rm -rf .git/objects .git/refs; echo ../evil > .git/commondir"
    ),
    "only HEAD and a common directory": planted(
        'repo r; cd r; mv .git data; git config -f data/config alias.st "!touch $M"; cd ..; mkdir sub; '
        " cp r/data/HEAD r/data/index sub/; echo ../r/data > sub/commondir",
        places=("sub", "r", "r/data"),
    ),
    "a bare repository": planted(
        "repo r; $G clone -q --bare r sub; script sub/x; cd sub; git config core.bare false; "
        "git config core.worktree ..; git config core.fsmonitor sub/x"
    ),
    "hooks of a bare repository": planted(
        f"repo r; $G clone -q --bare r bare; for h in pre-receive post-receive update {HOOKS}; "
        "do script bare/hooks/$h; done; cd r; git remote add origin ../bare; echo two > file; $G commit -qam two",
        places=("r", "bare"),
    ),
    "the workspace becomes a bare repository": planted(
        "repo r; cp -r r/.git/. .; git config -f config core.fsmonitor ./x; script x; "
        "git config -f config core.worktree .; mkdir d",
        places=(".", "d"),
        repository=False,
    ),
    "a repository at the top where there was none": planted(
        f"$G init -q .; {ALL_HOOKS} .git/hooks/$h; done; script x; git config core.fsmonitor ./x",
        places=(".",),
        repository=False,
    ),
    "exec in a paused rebase at the top": planted(
        "echo a > a; git add a; $G commit -qm a; echo b > a; $G commit -qam b; GIT_SEQUENCE_EDITOR=true "
        '$G rebase -q --exec false HEAD~1 || true; script x; echo "exec $PWD/x" > .git/rebase-merge/git-rebase-todo',
        places=(".",),
    ),
    "exec with other spellings": planted(
        "echo a > a; git add a; $G commit -qm a; echo b > a; $G commit -qam b; GIT_SEQUENCE_EDITOR=true "
        "$G rebase -q --exec false HEAD~1 || true; script x; "
        "printf ' \\tx %s\\n\\texec\\t%s\\r\\n' $PWD/x $PWD/x > .git/rebase-merge/git-rebase-todo",
        places=(".",),
    ),
    "exec in a rebase of a nested repository": planted(
        "repo sub; cd sub; echo b > file; $G commit -qam b; script x; GIT_SEQUENCE_EDITOR=true "
        '$G rebase -q --exec false HEAD~1 || true; echo "exec $PWD/x" > .git/rebase-merge/git-rebase-todo'
    ),
    "a todo list that is a link": planted(
        "repo sub; cd sub; echo b > file; $G commit -qam b; script x; GIT_SEQUENCE_EDITOR=true "
        '$G rebase -q --exec false HEAD~1 || true; echo "exec $PWD/x" > todo; '
        "ln -sf ../../todo .git/rebase-merge/git-rebase-todo"
    ),
    "a rebase directory that is a link": planted(
        "repo sub; cd sub; echo b > file; $G commit -qam b; script x; GIT_SEQUENCE_EDITOR=true "
        '$G rebase -q --exec false HEAD~1 || true; echo "exec $PWD/x" > .git/rebase-merge/git-rebase-todo; '
        "mv .git/rebase-merge paused; ln -s ../paused .git/rebase-merge"
    ),
    "a merge strategy that is a program": planted(
        "repo sub; cd sub; echo b > file; $G commit -qam b; echo c > other; git add other; $G commit -qm c; "
        "script git-merge-../x; GIT_SEQUENCE_EDITOR=true $G rebase -q --exec false HEAD~1 || true; "
        "echo '../x' > .git/rebase-merge/strategy; c=$(git rev-parse HEAD); git reset -q --hard HEAD~2; "
        'echo "pick $c c" > .git/rebase-merge/git-rebase-todo'
    ),
    "exec in a rebase of a worktree": planted(
        "$G worktree add -q sub; cd sub; echo b > b; git add b; $G commit -qm b; script x; GIT_SEQUENCE_EDITOR=true "
        '$G rebase -q --exec false HEAD~1 || true; echo "exec $PWD/x" > $(git rev-parse --git-dir)/rebase-merge/git-rebase-todo'
    ),
    "a worktree with another common directory": planted(
        "$G worktree add -q sub; repo r; script r/.git/x; git -C r config core.fsmonitor $PWD/r/.git/x; "
        "echo ../../../r/.git > .git/worktrees/sub/commondir"
    ),
    "hooks in modules": planted(
        f"repo lib; $G submodule --quiet add ./lib sub || true; $G commit -qm sub; {ALL_HOOKS} .git/modules/sub/hooks/$h; done"
    ),
    "fsmonitor in modules, in a second command": planted(
        "repo lib; $G submodule --quiet add ./lib sub || true; $G commit -qm sub",
        "script .git/modules/sub/x; git config -f .git/modules/sub/config core.fsmonitor $PWD/.git/modules/sub/x",
        places=(".", "sub"),
    ),
    "far below": planted(
        "repo node_modules/a/b/c/d/e/f/g/h/i/j/k; cd node_modules/a/b/c/d/e/f/g/h/i/j/k; script .git/x; "
        "git config core.fsmonitor .git/x",
        places=("node_modules/a/b/c/d/e/f/g/h/i/j/k",),
    ),
    "a directory that is renamed to .git": planted(
        "mv sub/dotgit sub/.git",
        before="$G init -q sub; cd sub; echo a > file; git add file; $G commit -qm a; printf '#!/bin/sh\\ntouch %s\\n' $M "
        "> .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout; mv .git dotgit",
    ),
    "the directory above is renamed": planted(
        "mv fixture/dotgit fixture/.git; mv fixture sub",
        before="$G init -q fixture; cd fixture; echo a > file; git add file; $G commit -qm a; "
        "printf '#!/bin/sh\\ntouch %s\\n' $M > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout; mv .git dotgit",
    ),
    "in two commands, a part in each": planted(
        "repo r; script x; mkdir sub; cp r/.git/config sub/; git config -f sub/config core.fsmonitor ./x; "
        "git config -f sub/config core.worktree ..",
        "cp -r r/.git/objects r/.git/refs r/.git/HEAD r/.git/index sub/",
    ),
    "a directory that cannot be listed": planted(
        "repo sub; script sub/.git/x; git -C sub config core.fsmonitor .git/x; chmod 311 sub"
    ),
    "directories that cannot be written": planted(
        f"repo sub; script sub/.git/x; git -C sub config core.fsmonitor .git/x; {ALL_HOOKS} sub/.git/hooks/$h; done; "
        "chmod 555 sub sub/.git sub/.git/hooks; chmod 444 sub/.git/config"
    ),
    "the user's own nested repository changed": planted(
        "script x; git -C sub config core.fsmonitor ../x",
        before="$G init -q sub; cd sub; echo > file; git add .; $G commit -qm a",
    ),
    "the user's own hook changed": planted(
        "evil > sub/.git/hooks/post-commit",
        before="$G init -q sub; cd sub; printf '#!/bin/sh\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    ),
    "the user's own hook changed through a hard link": planted(
        "evil > innocent",
        before="$G init -q sub; printf '#!/bin/sh\\n' > sub/.git/hooks/post-commit; chmod +x sub/.git/hooks/post-commit; "
        "ln sub/.git/hooks/post-commit innocent",
    ),
    "the user's own hook made executable": planted(
        "chmod +x sub/.git/hooks/post-commit",
        before="$G init -q sub; printf '#!/bin/sh\\ntouch %s\\n' $M > sub/.git/hooks/post-commit",
    ),
    "hooks in the tree of the user's nested repository": planted(
        "script sub/.husky/post-commit",
        before="$G init -q sub; git -C sub config core.hooksPath .husky",
    ),
    "a file that the user's nested repository includes": planted(
        "script x; printf '[core]\\n\\tfsmonitor = ../x\\n' > sub/shared",
        before="$G init -q sub; git -C sub config include.path ../shared; touch sub/shared; cd sub; touch file; git add .",
    ),
    "a worktree where the user's hooks are in the tree": planted(
        "$G worktree add -q sub; script sub/.husky/post-commit; script sub/.husky/pre-commit",
        before="mkdir .husky; printf '#!/bin/sh\\n' > .husky/pre-commit; chmod +x .husky/pre-commit; git add .; "
        "$G commit -qm husky; git config core.hooksPath .husky",
    ),
    "a submodule file that names a command": planted(
        'repo lib; $G submodule --quiet add ./lib sub || true; git config -f .gitmodules submodule.sub.update "!touch $M"; '
        "git add -A; $G commit -qm sub; cd sub; $G commit -q --allow-empty -m more",
        places=(".", "sub"),
    ),
    "a .git file to a repository outside whose hook runs a file of the tree": planted(
        'mkdir sub; echo "gitdir: $(dirname $PWD)/other/.git" > sub/.git; script sub/check.sh',
        before="$G init -q ../other; printf '#!/bin/sh\\n./check.sh\\n' > ../other/.git/hooks/post-commit; "
        "chmod +x ../other/.git/hooks/post-commit",
    ),
    "a common directory outside whose hook runs a file of the tree": planted(
        'repo sub; echo "$(dirname $PWD)/other/.git" > sub/.git/commondir; script sub/check.sh',
        before="$G init -q ../other; printf '#!/bin/sh\\n./check.sh\\n' > ../other/.git/hooks/post-commit; "
        "chmod +x ../other/.git/hooks/post-commit",
    ),
    "a long .git file to a repository outside": planted(
        "mkdir sub; (echo \"gitdir: $(dirname $PWD)/other/.git\"; head -c 300000 /dev/zero | tr '\\0' '\\n') > sub/.git; "
        "script sub/check.sh",
        before="$G init -q ../other; printf '#!/bin/sh\\n./check.sh\\n' > ../other/.git/hooks/post-commit; "
        "chmod +x ../other/.git/hooks/post-commit",
    ),
    "hooks where the user's own settings say they are, in every repository": planted(
        "repo sub; script sub/.githooks/post-commit; script .githooks/post-commit || true; script .githooks/post-checkout || true",
        before="git config --global core.hooksPath .githooks",
    ),
    "the file that a hook of the user's leads to, at the top": planted(
        "script scripts/check || true; mv scripts other || true; script scripts/check || true",
        before="mkdir scripts; printf '#!/bin/sh\\n' > scripts/check; chmod +x scripts/check; "
        "ln -s ../../scripts/check .git/hooks/post-commit",
        places=(".",),
    ),
    "the file that a hook of the user's leads to, below": planted(
        "script sub/check",
        before="$G init -q sub; printf '#!/bin/sh\\n' > sub/check; chmod +x sub/check; "
        "ln -s ../../check sub/.git/hooks/post-commit",
    ),
    "settings of a worktree that the user's settings ask for": planted(
        "$G worktree add -q sub; script x; printf '[core]\\n\\tfsmonitor = ../x\\n' > .git/worktrees/sub/config.worktree",
        before="git config extensions.worktreeConfig true",
    ),
    "hooks that cannot be listed": planted(
        "repo sub; script sub/.git/hooks/post-commit; chmod 311 sub/.git/hooks sub/.git"
    ),
    "a hook that cannot be read": planted(
        "repo sub; cp /bin/touch sub/.git/hooks/post-commit; chmod 111 sub/.git/hooks/post-commit; script sub/.git/hooks/post-checkout; chmod 555 sub/.git/hooks"
    ),
    "a directory in the way of the new name": planted(
        "repo sub; script sub/.git/hooks/post-commit; mkdir sub/.git/hooks/post-commit.disabled-by-hames; "
        "script sub/.git/hooks/post-checkout; script sub/.git/hooks/post-checkout.disabled-by-hames"
    ),
    "an unreadable directory in the way": planted(
        "repo sub; script sub/.git/x; mkdir sub/.git/sequencer; chmod 0 sub/.git/sequencer; "
        'echo "$(dirname $PWD)/other/.git" > sub/.git/commondir; script sub/check.sh',
        before="$G init -q ../other; printf '#!/bin/sh\\n./check.sh\\n' > ../other/.git/hooks/post-commit; "
        "chmod +x ../other/.git/hooks/post-commit",
    ),
    "a link above a .git file that moves": planted(
        "repo r; mkdir sub; ln -s . way; echo 'gitdir: ../way/r/.git' > sub/.git",
        "repo evil/r; script evil/r/.git/x; git -C evil/r config core.fsmonitor ../evil/r/.git/x; rm way; ln -s evil way",
        places=("sub", "r", "evil/r"),
    ),
}

HONEST: dict[str, tuple[str, ...]] = {
    # Commands inside, one after the other; each must succeed.
    "init at the top": ("$G init -q . && echo a > a && git add a && $G commit -qm a", "git log --oneline | grep a"),
    "init and commit below": (
        "repo sub",
        "cd sub && echo two > file && $G commit -qam two && git log --oneline | grep two",
    ),
    "clone": (
        "repo r; $G clone -q r sub && cd sub && git log --oneline",
        "cd sub && git remote -v | grep origin && $G pull -q",
    ),
    "clone, push and fetch with a bare repository": (
        "repo r; $G clone -q --bare r bare && $G clone -q bare sub",
        "cd sub && echo b > b && git add b && $G commit -qm b && git push -q origin main",
        "git -C r fetch -q ../bare main && git -C r log FETCH_HEAD --oneline | grep b",
    ),
    "commit and branch": (
        "echo a > a && git add a && $G commit -qm a && git switch -qc topic && echo b > a && $G commit -qam b",
        "git switch -q main && $G merge -q topic && git branch -d topic && git log --oneline | grep b",
    ),
    "merge with a conflict across two commands": (
        "git switch -qc topic; echo b > top; $G commit -qam b; git switch -q main; echo c > top; $G commit -qam c; "
        "! $G merge -q topic",
        "echo both > top; git add top; $G commit -qm merged; git log --merges --oneline | grep merged",
    ),
    "rebase with a conflict across two commands": (
        "git switch -qc topic; echo b > top; $G commit -qam b; echo d > d; git add d; $G commit -qm d; "
        "git switch -q main; echo c > top; $G commit -qam c; git switch -q topic; ! $G rebase -q main",
        "echo both > top; git add top; GIT_EDITOR=true $G rebase --continue; git log --oneline | grep d; test ! -d .git/rebase-merge",
    ),
    "rebase --exec in one command": (
        "for i in 1 2 3; do echo $i > top; $G commit -qam $i; done; $G rebase -q --exec 'echo ran >> /tmp/out' HEAD~3 && grep -c ran /tmp/out",
    ),
    "rebase --exec that stops, continued later": (
        "for i in 1 2 3; do echo $i > top; $G commit -qam $i; done; ! $G rebase -q --exec 'test -e fixed' HEAD~3",
        "touch fixed; GIT_EDITOR=true $G rebase --continue; test ! -d .git/rebase-merge; git log --oneline | grep 3",
    ),
    "cherry-pick and revert": (
        "echo b > b; git add b; $G commit -qm b; git switch -qc topic HEAD~1; $G cherry-pick main; $G revert --no-edit HEAD",
    ),
    "worktrees": (
        "$G worktree add -q sub && cd sub && echo b > b && git add b && $G commit -qm b",
        "cd sub && echo c > c && git add c && $G commit -qm c && git log --oneline | grep c",
        "$G worktree add -q two && git worktree remove sub && git worktree list | grep two && git worktree prune",
        "git worktree remove two && test ! -e .git/worktrees/two",
    ),
    "a submodule": (
        "repo lib; $G submodule --quiet add ./lib sub; $G commit -qm sub; git submodule status",
        "cd sub && echo b > b && git add b && $G commit -qm b && git log --oneline | grep b",
        "$G commit -qam bump && git submodule status && $G submodule update",
    ),
    "stash": ("echo b > top && $G stash -q && git stash list | grep WIP", "git stash pop -q && grep b top"),
    "stash with a submodule": (
        "repo lib; $G submodule --quiet add ./lib sub",
        "$G stash -q",
        "$G stash pop -q --index",
    ),
    "gc": (
        "for i in 1 2 3; do echo $i > top; $G commit -qam $i; done; git gc -q --prune=now",
        "git fsck && git status",
    ),
    "gc with a worktree": ("$G worktree add -q sub", "git gc -q && git -C sub status"),
    "bisect": (
        "for i in 1 2 3 4; do echo $i > top; $G commit -qam $i; done; git bisect start HEAD HEAD~4",
        "git bisect run sh -c 'test $(cat top) -lt 3' | grep 'first bad'",
        "git bisect reset",
    ),
    "am and format-patch": (
        "echo b > top; $G commit -qam b; git format-patch -q -1 -o /tmp/p; git reset -q --hard HEAD~1; $G am -q /tmp/p/*",
    ),
    "settings of an own repository": (
        "repo sub; cd sub; git config user.name me; git config pull.rebase true; git config core.autocrlf input; "
        "git remote add up https://example.org/x.git; git config branch.main.remote up; git config branch.main.merge refs/heads/main",
        "cd sub; git config user.name; git config pull.rebase; git config core.autocrlf; git config remote.up.url; "
        "git config branch.main.merge",
    ),
    "sparse checkout and shallow and partial clones": (
        "repo r; mkdir r/d; echo a > r/d/a; (cd r; git add .; $G commit -qm d; git config uploadpack.allowFilter true); "
        "$G clone -q --depth 1 file://$PWD/r shallow; $G clone -q --filter=blob:none file://$PWD/r partial",
        "cd partial; git sparse-checkout set d; git status; git log -p | grep -q one; git -C ../shallow fetch -q --unshallow",
    ),
    "a repository that is moved": (
        "repo sub; mv sub other",
        "cd other; echo b > file; $G commit -qam b; git log --oneline | grep b",
    ),
    "files that mean nothing": (
        "mkdir -p src/objects src/refs hooks; echo x > hooks/pre-commit; chmod +x hooks/pre-commit; echo x > HEAD",
        "test -x hooks/pre-commit && test -e HEAD && test -d src/objects",
    ),
    "git apply, notes, tags and clean": (
        "echo b > top; git diff > /tmp/d; git checkout -q top; git apply /tmp/d; $G commit -qam b; $G notes add -m n; "
        "$G tag -a t -m t; touch junk; git clean -qf junk; test ! -e junk",
    ),
}

USERS_OWN = """
set -e
$G init -q sub; cd sub; echo one > file; git add file; $G commit -qm one
printf '#!/bin/sh\\necho mine\\n' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit
ln -s ../../check.sh .git/hooks/post-commit; printf '#!/bin/sh\\n' > check.sh; chmod +x check.sh
git config core.fsmonitor .git/hooks/query; printf '#!/bin/sh\\n' > .git/hooks/query; chmod +x .git/hooks/query
git config alias.st '!git status'; git config filter.lfs.clean 'git-lfs clean -- %f'
printf '\\n; a comment \\\\\\n[core] editor = vi # mine\\n\\tpager = \\\\\\n  less\\n' >> .git/config
git config include.path ../shared; printf '[core]\\n\\tsshCommand = ssh -v\\n' > shared
git clone -q --bare . ../bare.git; printf '#!/bin/sh\\n' > ../bare.git/hooks/post-receive
chmod +x ../bare.git/hooks/post-receive; git -C ../bare.git config uploadpack.packObjectsHook ./x
mkdir ../pointed; mkdir -p ../../store; git init -q --separate-git-dir ../../store/git ../pointed
cp /bin/true ../own-setuid; chmod 4755 ../own-setuid; mkdir -m 2775 ../own-setgid; cp /bin/true ../gid; chmod 2755 ../gid
"""

TOUCHES = (
    "true",
    "cd sub && echo two > file && git -c core.fsmonitor= -c core.editor=true add file && ls -la . .git .git/hooks",
    "cd sub && $G -c core.fsmonitor= -c core.hooksPath=/dev/null commit -qam two",
    "touch sub/new sub/.git/new pointed/new bare.git/new; rm sub/new",
    "mkdir -p sub/.git/rebase-merge && echo 'pick 1234' > sub/.git/rebase-merge/git-rebase-todo",
    "cat own-setuid gid sub/.git/config > /dev/null; cp file copy 2>/dev/null || true",
)

BITS: dict[str, str] = {
    "chmod": "cp /bin/true x; chmod 4755 x; cp x y; chmod 2755 y; cp x z; chmod 6755 z",
    "made with the mode": "python3 -c \"import os; os.close(os.open('x', os.O_CREAT | os.O_WRONLY, 0o6777))\"",
    "install": "install -m 4755 /bin/true x",
    "far below and in a repository": "mkdir -p a/b/c/d/e/f .git/objects/zz; for d in a/b/c/d/e/f .git/objects/zz; do "
    "cp /bin/true $d/x; chmod 4755 $d/x; done",
    "a file that was there, without a change in its directory": "chmod 6755 old",
    "tar": "cp /bin/true x; chmod 4755 x; tar cpf t x; rm x; tar xpf t",
    "a name that is no text": 'n=$(printf \'a\\nb\\377\'); cp /bin/true "$n"; chmod 4755 "$n"',
    "a directory that cannot be listed": "mkdir d; cp /bin/true d/x; chmod 4755 d/x; chmod 311 d",
    "in a directory that cannot be written": "mkdir d; cp /bin/true d/x; chmod 4111 d/x; chmod 555 d",
    "a path that is longer than the kernel takes": "python3 -c \"import os\nfor _ in range(60):\n os.mkdir('n' * 200); "
    "os.chdir('n' * 200)\nopen('x', 'w').close(); os.chmod('x', 0o4755)\"",
    "a time that was put back": "cp /bin/true x; chmod 4755 x; touch -d 2001-01-01 x",
}

# What a row does is the same for every user, but where modes are concerned.
BY_USER = [pytest.param(user, marks=[pytest.mark.slow] if user == "nobody" else []) for user in users()]

_EACH = """
each() {
    timeout 20 /bin/bash --noprofile --norc -c "$1" >/dev/null 2>&1 </dev/null
    if [ -e "$M" ]; then rm "$M"; echo "$1"; fi
}
"""


class Scene:
    """A workspace with a repository of the user's at its top, and a marker beside it."""

    def __init__(self, base: Path, *, repository: bool = True) -> None:
        self.here = base / "ws"
        self.here.mkdir()
        self.marker = base / "marker"
        self.sandbox = self.fresh_sandbox()
        (base / "home").mkdir()
        if repository:
            self.outside(f"{GIT} init -q . && echo top > top && git add top && {GIT} commit -qm top")

    def fresh_sandbox(self) -> LocalSandbox:
        """One that has not seen the workspace."""
        return LocalSandbox(
            SandboxSettings(), environ={"HOME": str(self.here.parent / "home"), "PATH": os.environ["PATH"]}
        )

    def outside(self, script: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """As the user, with none of our own protection."""
        return subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-c", script],
            cwd=cwd or self.here,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.here.parent / "home"),
                "M": str(self.marker),
                "G": GIT,
                "EDITOR": "true",
                "PAGER": "cat",
                "GIT_TERMINAL_PROMPT": "0",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    async def inside(self, script: str) -> Outcome:
        words = f"M={self.marker}; G={GIT!r}; export M G; {PRELUDE}\n{script}"
        return await run(words, self.here, sandbox=self.sandbox)

    def ran(self, places: tuple[str, ...]) -> str:
        """Which of the ordinary commands, if any, ran something that was planted."""
        tried = {".": AT_THE_TOP} | dict.fromkeys(places, OUTSIDE)
        for place, commands in tried.items():
            if (self.here / place).is_dir():
                script = "\n".join(f"each {shlex.quote(command)}" for command in commands)
                if found := self.outside(_EACH + script, self.here / place).stdout:
                    return f"in {place!r}: {found}"
        return ""


@contextmanager
def scene(*, repository: bool = True) -> Iterator[Scene]:
    with workspace() as base:
        yield Scene(base, repository=repository)
