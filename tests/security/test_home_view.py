"""What commands see of the home directory and of the rest of the machine: what is on a list, and nothing else."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest
from home import CANARY, KNOCK, SECRETS, heard, odd_sockets, place, put, sandbox, without_overlays
from walls import as_user, bubblewraps, policy, run, users

from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Launch, ToolFailed
from hames.sandbox.local import SandboxSettings
from hames.sandbox.walls.view.home import CACHES, LANGUAGES, TOOLS
from hames.sandbox.walls.view.secret_paths import HOME_SECRETS as KNOWN_SECRETS

pytestmark = pytest.mark.needs("bwrap", "bash")

POLICIES = ('{"type": "readOnly"}', '{"type": "workspaceWrite"}')
FIND = f"cat $(find ~ -type f 2>/dev/null) 2>/dev/null | grep -c {CANARY}; true"


def furnished(home: Path) -> list[str]:
    """A home with every tool and cache there is, a secret beside each of them, and secrets all over the place."""
    for name in (*TOOLS, *CACHES):
        (home / name).mkdir(parents=True, exist_ok=True)
    beside = [f"{Path(name).parent}/beside-{number}" for number, name in enumerate((*TOOLS, *CACHES))]
    # Some tools lie inside what another one shows as a whole.
    shown = tuple(f"{name}/" for name in (*TOOLS, *CACHES))
    secrets = [name for name in dict.fromkeys([*SECRETS, *beside]) if not name.removeprefix("./").startswith(shown)]
    secrets.append(".dotnet/corefx/key.pfx")
    for name in secrets:
        put(home, name)
    return secrets


async def readable_secrets(policy_name: str, bubblewrap: str) -> list[str]:
    with place() as base:
        home, here = base / "home", base / "ws"
        here.mkdir()
        secrets = furnished(home)
        assert len(secrets) > 180
        names = " ".join(shlex.quote(f"{home}/{name}") for name in secrets)
        command = f'for f in {names}; do grep -l {CANARY} "$f" 2>/dev/null; done; {FIND}'
        found = await run(
            command, here, policy(policy_name), sandbox=sandbox(home, SandboxSettings(bubblewrap=bubblewrap))
        )
        return found.text.split()


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("bubblewrap", bubblewraps())
@pytest.mark.parametrize("name", POLICIES)
def test_no_secret_at_home_can_be_read(name: str, bubblewrap: str, user: str) -> None:
    assert as_user(user, "test_home_view:readable_secrets", name, bubblewrap) == ["0"]


async def test_without_overlays_no_secret_can_be_read_either(tmp_path: Path) -> None:
    for name in POLICIES:
        assert await readable_secrets(name, without_overlays(tmp_path)) == ["0"]


@pytest.mark.parametrize("walled", [ReadOnly(), WorkspaceWrite()], ids=["readOnly", "workspaceWrite"])
async def test_the_root_holds_only_what_is_on_the_list(walled: SandboxPolicy) -> None:
    with place() as base:
        (base / "ws").mkdir()
        done = await run("cd / && ls -d * .[!.]* 2>/dev/null", base / "ws", walled, sandbox=sandbox(base / "home"))
    shown = set(done.text.split())
    system = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "sys", "nix", "gnu", "snap"}
    assert shown <= system | {"dev", "proc", "run", "tmp", "var"}
    assert {"usr", "bin", "etc", "proc", "tmp", "var"} <= shown


async def test_other_directories_of_the_machine_are_not_there() -> None:
    with place() as other, place() as base:
        (base / "ws").mkdir()
        put(other, "notes.txt")
        command = f"cat {other}/notes.txt; ls {other}; ls /srv /mnt /media /home /root /var/log /var/spool /boot; true"
        done = await run(command, base / "ws", sandbox=sandbox(base / "home"))
    assert CANARY not in done.text
    assert done.text.count("No such file or directory") == 10


async def test_nothing_can_be_made_beside_what_is_shown() -> None:
    with place() as base:
        (base / "ws").mkdir()
        places = f"/new /usr/new /etc/new /var/new /var/lib/new {base}/new /opt/new"
        done = await run(f"for p in {places}; do mkdir $p && echo made $p; done; true", base / "ws")
    assert "made" not in done.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read them at all")
async def test_root_sees_no_secrets_of_the_system() -> None:
    hidden = "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/ssl/private/* /etc/ssh/*_key /etc/sudoers*"
    closed = "find /etc -type f -not -perm -o=r -size +0 2>/dev/null"
    with place() as base:
        (base / "ws").mkdir()
        for walled in (ReadOnly(), WorkspaceWrite()):
            done = await run(
                f"cat {hidden} 2>/dev/null | wc -c; {closed}; cat /etc/passwd | wc -l", base / "ws", walled
            )
            count, *rest = done.text.split()
            assert (count, len(rest)) == ("0", 1)
            assert int(rest[0]) > 0


SETTINGS = {
    ".gitconfig": (
        f"[user]\n\tname = Me Myself\n\temail = me@example.org\n\tpassword = {CANARY}\n"
        f'[http]\n\textraheader = "Authorization: Bearer {CANARY}"\n[http "https://a.org"]\n\tcookieFile = {CANARY}\n'
        f'[credential]\n\thelper = "store --file {CANARY}"\n'
        f"[core]\n\tsshCommand = ssh -i {CANARY}\n\teditor = {CANARY}\n"
        f"\texcludesFile = ~/.gitignore_global\n\tpager = {CANARY}\n\thooksPath = /{CANARY}\n\tfsmonitor = {CANARY}\n"
        f'[alias]\n\tst = status --short\n\tevil = "!echo {CANARY}"\n\tsneaky = "-c http.extraheader={CANARY} fetch"\n'
        f'[url "https://x:{CANARY}@example.org/"]\n\tinsteadOf = https://example.org/\n[gpg]\n\tprogram = {CANARY}\n'
        f'[include]\n\tpath = ~/.more\n[commit]\n\tgpgsign = true\n[diff "x"]\n\ttextconv = {CANARY}\n'
        f'[filter "x"]\n\tclean = {CANARY}\n[init]\n\tdefaultBranch = trunk\n\ttemplateDir = {CANARY}\n'
    ),
    ".more": f"[pull]\n\trebase = true\n[sendemail]\n\tsmtpPass = {CANARY}\n",
    ".config/git/config": f"[user]\n\temail = other@example.org\n[github]\n\ttoken = {CANARY}\n",
    ".gitignore_global": "*.ignored-everywhere\n",
    ".npmrc": (
        f"registry=https://u:{CANARY}@npm.example.org/path/?token={CANARY}\n//npm.example.org/:_authToken={CANARY}\n"
        f"@mine:registry=https://npm.example.org/mine\n_auth={CANARY}\nemail={CANARY}\nsave-exact=true\n; {CANARY}\n"
        f"fund={CANARY}0123456789012345678901234567890123456789\ncafile=/{CANARY}\n"
    ),
    ".config/pip/pip.conf": (
        f"[global]\nindex-url = https://u:{CANARY}@pip.example.org/simple\nclient-cert = {CANARY}\nproxy = http://{CANARY}@p\n"
        f"extra-index-url = https://{CANARY}@a.example.org/x\n    https://b.example.org/{CANARY}longlonglong12345/y\n"
    ),
    ".config/uv/uv.toml": (
        f'index-url = "https://u:{CANARY}@uv.example.org/simple"\nkeyring-provider = "{CANARY}"\n'
        f'[[index]]\nname = "x"\nurl = "https://{CANARY}@i.example.org/"\nauthenticate = "{CANARY}"\n'
    ),
    ".cargo/config.toml": (
        f'[registries.mine]\nindex = "sparse+https://{CANARY}@c.example.org/"\ntoken = "{CANARY}"\n'
        f'[registry]\ntoken = "{CANARY}"\n[net]\noffline = true\n'
        f'[env]\nX = "{CANARY}"\n[build]\nrustc-wrapper = "{CANARY}"\n'
    ),
    ".ssh/known_hosts": f"example.org ssh-ed25519 AAAAC3Nza {CANARY}\n# {CANARY}\nnot-a-line {CANARY}\n",
}


async def rendered(bubblewrap: str) -> str:
    with place() as base:
        home, here = base / "home", base / "ws"
        here.mkdir()
        for name, text in SETTINGS.items():
            put(home, name, text)
        command = "cd; find . -type f -not -path './.git/*' | while read f; do echo == $f; cat $f; done"
        done = await run(command, here, sandbox=sandbox(home, SandboxSettings(bubblewrap=bubblewrap)))
        return done.text


@pytest.mark.needs("git")
@pytest.mark.parametrize("user", users())
def test_settings_are_rendered_without_what_is_secret_or_runs(user: str) -> None:
    text: str = as_user(user, "test_home_view:rendered", bubblewraps()[0])
    assert CANARY not in text
    for kept in (
        'name = "Me Myself"',
        'email = "me@example.org"',
        'st = "status --short"',
        'defaultBranch = "trunk"'.replace("defaultBranch", "defaultbranch"),
        'rebase = "true"',
        "*.ignored-everywhere",
        "registry=https://npm.example.org/path/",
        "@mine:registry=https://npm.example.org/mine",
        "save-exact=true",
        "index-url = https://pip.example.org/simple",
        'index-url = "https://uv.example.org/simple"',
        'url = "https://i.example.org/"',
        'index = "sparse+https://c.example.org/"',
        "offline = true",
        "example.org ssh-ed25519 AAAAC3Nza\n",
    ):
        assert kept in text, kept
    assert "gpgsign" not in text


@pytest.mark.needs("git")
async def test_git_commits_with_the_users_own_name_and_ignores_what_the_user_ignores() -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        here.mkdir()
        for name, text in SETTINGS.items():
            put(home, name, text)
        command = "git init -q sub && cd sub && touch a b.ignored-everywhere && git add -A && git commit -qm one"
        done = await run(
            f"{command} && git log --format='%an %ae' && git st && git ls-files", here, sandbox=sandbox(home)
        )
        assert done.text == "Me Myself me@example.org\na\n"


async def test_no_socket_of_another_program_can_be_reached() -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("needs the system's python3")
    with place() as base, place() as elsewhere:
        home, here = base / "home", base / "ws"
        here.mkdir()
        (here / "knock.py").write_text(KNOCK)
        scratch = Path(f"/tmp/hames-test-{os.getpid()}")
        scratch.mkdir()
        try:
            with odd_sockets(home / "s") as a, odd_sockets(elsewhere / "s") as b, odd_sockets(scratch / "s") as c:
                for walled in (ReadOnly(), WorkspaceWrite(), WorkspaceWrite(network_access=True)):
                    for found in (a, b, c):
                        paths = " ".join(shlex.quote(path) for path, _ in found.values())
                        done = await run(f"{python} knock.py {paths}", here, walled, sandbox=sandbox(home))
                        assert done.text == "knocked\n"
                        assert not any(heard(listener) for _, listener in found.values())
        finally:
            shutil.rmtree(scratch)


@pytest.mark.parametrize("walled", [ReadOnly(), WorkspaceWrite()], ids=["readOnly", "workspaceWrite"])
async def test_no_socket_in_the_workspace_can_be_reached_however_it_was_bound(walled: SandboxPolicy) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("needs the system's python3")
    with place() as base:
        here = base / "ws"
        here.mkdir()
        (here / "knock.py").write_text(KNOCK)
        walls = sandbox(base / "home")
        assert (await run("true", here, walled, sandbox=walls)).code == 0
        deep = here / ("a-long-name-" * 8) / "and-another"
        deep.mkdir(parents=True)
        with odd_sockets(here / "s") as near, odd_sockets(deep / "s") as far:
            found = {**near, **{f"far {name}": one for name, one in far.items()}}
            paths = " ".join(shlex.quote(path) for path, _ in found.values())
            done = await run(f"{python} knock.py {paths}", here, walled, sandbox=walls)
            assert done.text == "knocked\n"
            assert not any(heard(listener) for _, listener in found.values())
            # The same attempt succeeds where there are no walls.
            subprocess.run([python, here / "knock.py", near["plain"][0]], check=True, stdout=subprocess.DEVNULL)
            assert heard(near["plain"][1])


async def test_a_socket_that_nobody_listens_on_can_be_removed_and_made_again() -> None:
    with place() as base:
        (base / "ws").mkdir()
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(base / "ws/server.sock"))
        done = await run("rm server.sock && echo removed", base / "ws", sandbox=sandbox(base / "home"))
        assert done.text == "removed\n"


async def test_what_begins_to_listen_later_cannot_be_reached_outside_the_workspace() -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("needs the system's python3")
    with place() as base:
        home, here = base / "home", base / "ws"
        home.mkdir()
        here.mkdir()
        (here / "knock.py").write_text(KNOCK)
        late = home / "late.sock"
        command = f"echo ready; until [ -e go ]; do sleep 0.02; done; {python} knock.py {late}"
        launch = Launch(argv=("/bin/bash", "-c", command), cwd=str(here), workspace=str(here), policy=WorkspaceWrite())
        with anyio.fail_after(60), socket.socket(socket.AF_UNIX) as listener:
            process = await sandbox(home).spawn(launch)
            output = process.output()
            assert await anext(output) == b"ready\n"
            listener.setblocking(False)
            listener.bind(str(late))
            listener.listen()
            (here / "go").touch()
            assert b"".join([chunk async for chunk in output]) == b"knocked\n"
            await process.kill()
            assert not heard(listener)


@pytest.mark.parametrize("overlays", [True, False])
async def test_a_cache_changed_inside_is_unchanged_outside(tmp_path: Path, overlays: bool) -> None:
    settings = SandboxSettings() if overlays else SandboxSettings(bubblewrap=without_overlays(tmp_path))
    with place() as base:
        home, here = base / "home", base / "ws"
        here.mkdir()
        for name in LANGUAGES:
            put(here, f"x{name}" if name.count(".") == 1 and name[0] == "." else name, "")
        for name in CACHES:
            put(home, f"{name}/package/module", "mine\n")
        names = " ".join(f'"$HOME/{name}"' for name in CACHES)
        command = (
            f"for d in {names}; do cat $d/package/module; mkdir -p $d/package; echo evil > $d/package/module; "
            "echo evil > $d/new; rm -rf $d/package; done 2>/dev/null; echo done"
        )
        done = await run(command, here, sandbox=sandbox(home, settings))
        readable = done.text.count("mine")
        assert done.text.endswith("done\n")
        assert readable == sum(overlays or cache.readable for cache in CACHES.values())
        for name in CACHES:
            assert (home / name / "package/module").read_text() == "mine\n"
            assert not (home / name / "new").exists()


async def test_a_cache_is_private_where_its_language_is_used_and_read_only_elsewhere() -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        here.mkdir()
        for name in (".cargo/registry", ".cache/uv"):
            put(home, f"{name}/package", "mine\n")
        walls = sandbox(home)
        command = (
            "cat ~/.cargo/registry/package; echo x > ~/.cargo/registry/new && echo private; cat ~/.cache/uv/package"
        )
        before = await run(command, here, sandbox=walls)
        assert before.text.startswith("mine\n")
        assert "Read-only file system" in before.text
        assert "No such file" in before.text
        put(here, "deep/Cargo.toml", "")
        put(here, "pyproject.toml", "")
        after = await run(command, here, sandbox=walls)
        assert after.text == "mine\nprivate\nmine\n"


async def test_the_private_home_can_be_written_to_and_starts_empty_each_time() -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        home.mkdir()
        here.mkdir()
        walls = sandbox(home)
        first = await run("mkdir -p ~/.config/x && echo kept > ~/.config/x/y && cat ~/.config/x/y", here, sandbox=walls)
        # pnpm has no variable for what keeps it from sharing files, so there is a settings file of ours
        second = await run(
            "ls -A ~ | grep -v .config; df -B1 --output=size ~ | tail -1; stat -c %a ~", here, sandbox=walls
        )
        assert first.text == "kept\n"
        size, mode = second.text.split()
        assert 0 < int(size) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
        assert mode == "700"
        assert list(home.iterdir()) == []


async def test_tools_that_come_and_go_do_not_stop_a_command() -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        home.mkdir()
        here.mkdir()
        stop = threading.Event()

        def churn() -> None:
            while not stop.is_set():
                for name in (".nvm/versions", ".cargo/registry/x", ".m2/repository/y", ".rustup/z"):
                    (home / name).mkdir(parents=True, exist_ok=True)
                for name in (".nvm", ".cargo", ".m2", ".rustup"):
                    shutil.rmtree(home / name)

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            walls = sandbox(home)
            for number in range(10):
                done = await run(f"echo {number} >> ran; echo out", here, sandbox=walls)
                assert (done.code, done.text) == (0, "out\n")
        finally:
            stop.set()
            thread.join()
        assert (here / "ran").read_text().split() == [str(number) for number in range(10)]


async def test_a_workspace_below_the_home_is_there_and_its_neighbours_are_not() -> None:
    with place() as base:
        home = base / "home"
        here = home / "projects/mine"
        here.mkdir(parents=True)
        put(home, "projects/other/.env")
        put(home, ".ssh/id_rsa")
        secrets = "~/.ssh/id_rsa ~/projects/other/.env"
        command = f"pwd; echo x > made; ls ~/projects; touch ~/projects/beside; cat {secrets}; {FIND}"
        done = await run(command, here, sandbox=sandbox(home))
        assert done.text.startswith(f"{here}\nmine\n")
        assert "Read-only file system" in done.text
        assert done.text.endswith("\n0\n")
        assert (here / "made").read_text() == "x\n"
        assert not (home / "projects/beside").exists()


async def test_a_workspace_that_is_the_home_hides_what_is_known_to_be_secret_and_says_so() -> None:
    with place() as base:
        home = base / "home"
        for name in KNOWN_SECRETS:
            put(home, f"{name}/secret" if "." not in Path(name).name[1:] else name)
        put(home, "notes.txt", "not hidden")
        walls = sandbox(home)
        done = await run(f"{FIND}; cat notes.txt; echo x > made", home, sandbox=walls)
        assert done.text == "0\nnot hidden"
        assert (home / "made").exists()
        assert [note for note in done.notes if "is or contains the home directory" in note]
        again = await run("true", home, sandbox=walls)
        assert again.notes == ()


async def test_links_on_the_way_to_the_workspace_and_the_home_lead_there() -> None:
    with place() as base:
        real_home, real_workspace = base / "real/home", base / "disk/ws"
        (real_home / ".nvm/bin").mkdir(parents=True)
        (real_workspace / "sub").mkdir(parents=True)
        (base / "home").symlink_to("real/home")
        (base / "projects").symlink_to(base / "disk")
        put(real_home, "secret")
        (base / "disk/other").mkdir()
        named = base / "projects/ws"
        command = (
            f"echo x > {named}/sub/made; ls -d {base}/home/.nvm/bin; ls {base}/disk; cat {base}/home/secret; pwd -P"
        )
        done = await run(command, named, sandbox=sandbox(base / "home"), cwd=named / "sub")
        assert done.text.splitlines()[:2] == [f"{base}/home/.nvm/bin", "ws"]
        assert "No such file" in done.text
        assert done.text.endswith(f"{real_workspace}/sub\n")
        assert (real_workspace / "sub/made").exists()


async def test_a_tool_directory_that_is_a_link_is_shown_through_it() -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        here.mkdir()
        put(base, "disk/pyenv/version", "3.12\n")
        put(base, "disk/secret")
        home.mkdir()
        (home / ".pyenv").symlink_to(base / "disk/pyenv")
        (home / ".nvm").symlink_to(home)
        (home / ".rbenv").symlink_to("/")
        command = f"cat ~/.pyenv/version; cat {base}/disk/secret; ls ~/.nvm ~/.rbenv"
        done = await run(command, here, sandbox=sandbox(home))
        assert done.text.startswith("3.12\n")
        assert done.text.count("No such file or directory") == 3


@pytest.mark.needs("git")
async def test_a_workspace_deep_in_a_repository_sees_the_whole_repository_and_nothing_beside_it() -> None:
    with place() as base:
        here = base / "repo/packages/a"
        here.mkdir(parents=True)
        put(base, "repo/packages/b/file", "b\n")
        put(base, "other/secret")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
            subprocess.run([*git, *words], cwd=base / "repo", check=True, env={"PATH": os.environ["PATH"]})
        command = f"git status --short; cat ../b/file; echo x > ../b/file; cat {base}/other/secret; echo y > mine"
        for walled in (ReadOnly(), WorkspaceWrite()):
            done = await run(command, here, walled, sandbox=sandbox(base / "home"))
            assert done.text.startswith("b\n")
            assert CANARY not in done.text
        assert (base / "repo/packages/b/file").read_text() == "b\n"
        assert (here / "mine").exists()


@pytest.mark.needs("git")
async def test_a_linked_worktree_finds_its_repository_and_a_forged_one_finds_nothing() -> None:
    with place() as base:
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        environment = {"PATH": os.environ["PATH"]}
        subprocess.run([*git, "init", "-q", base / "main"], check=True, env=environment)
        subprocess.run([*git, "commit", "--allow-empty", "-qm", "one"], cwd=base / "main", check=True, env=environment)
        subprocess.run([*git, "worktree", "add", "-q", base / "tree"], cwd=base / "main", check=True, env=environment)
        put(base, "main/not-committed")
        for walled in (ReadOnly(), WorkspaceWrite()):
            done = await run("git log --format=%s; cat ../main/not-committed", base / "tree", walled)
            assert done.text.startswith("one\n")
            assert CANARY not in done.text
        (base / "forged").mkdir()
        (base / "forged/.git").write_text(f"gitdir: {base}/main/.git\n")
        done = await run(f"ls {base}/main/.git", base / "forged", ReadOnly())
        assert "No such file" in done.text


@pytest.mark.needs("git")
async def test_a_submodule_as_the_workspace_finds_its_repository() -> None:
    with place() as base:
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
        environment = {"PATH": os.environ["PATH"]}

        def do(where: Path, *words: str | Path) -> None:
            subprocess.run([*git, *words], cwd=where, check=True, env=environment, capture_output=True)

        for name in ("inner", "outer"):
            (base / name).mkdir()
            do(base / name, "init", "-q")
            do(base / name, "commit", "--allow-empty", "-qm", name)
        do(base / "outer", "submodule", "add", base / "inner", "sub")
        done = await run("git log --format=%s && git status --short", base / "outer/sub", ReadOnly())
        assert (done.code, done.text) == (0, "inner\n")


@pytest.mark.needs("git")
async def test_borrowed_objects_are_named_and_not_shown() -> None:
    with place() as base:
        (base / "ws/.git/objects/info").mkdir(parents=True)
        put(base, "private/.git/objects/aa/object")
        put(base, "ws/.git/objects/info/alternates", f"{base}/private/.git/objects\n")
        done = await run(f"cat {base}/private/.git/objects/aa/object", base / "ws")
        assert CANARY not in done.text
        assert [note for note in done.notes if f"{base}/private/.git/objects" in note and "extra_read" in note]


async def test_the_python_behind_an_environment_is_shown_and_nothing_that_only_claims_to_be_one() -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        put(home, "pythons/3.99/lib/python3.99/os.py", "the standard library\n")
        put(home, "pythons/3.99/bin/python3.99", "#!/bin/sh\necho it runs\n")
        put(home, "pythons/secret")
        put(home, "vault/bin/python3", "#!/bin/sh\n")
        put(home, "vault/secret")
        put(home, "lib/python3.99/os.py")
        put(home, "bin/python3", "#!/bin/sh\n")
        for name in ("pythons/3.99/bin/python3.99", "vault/bin/python3", "bin/python3"):
            (home / name).chmod(0o755)
        for name, target in (
            (".venv", "pythons/3.99/bin/python3.99"),
            ("deep/down/env", "vault/bin/python3"),
            ("h", "bin/python3"),
        ):
            put(here, f"{name}/pyvenv.cfg", "")
            (here / name / "bin").mkdir()
            (here / name / "bin/python").symlink_to(home / target)
        done = await run(f".venv/bin/python; {FIND}; ls ~/vault ~/lib", here, sandbox=sandbox(home))
        assert done.text.startswith("it runs\n0\n")
        assert done.text.count("No such file or directory") == 2
        told = [note for note in done.notes if "extra_read" in note]
        assert any("deep/down/env/bin/python" in note for note in told)
        assert any(f"{here}/h/bin/python" in note for note in told)
        assert not any("/.venv/" in note for note in told)


async def test_a_program_on_the_path_that_leads_to_nowhere_inside_is_named() -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        here.mkdir()
        tools = home / "tools"
        tools.mkdir(parents=True)
        tools.chmod(0o755)
        put(home, "src/python3", "#!/bin/sh\necho mine\n")
        put(home, "elsewhere/bin/x", "#!/bin/sh\necho x\n")
        put(home, "elsewhere/secret")
        (tools / "python3").symlink_to(home / "src/python3")
        put(tools, "own", "#!/bin/sh\necho own\n")
        for path in (home / "src/python3", home / "elsewhere/bin/x", tools / "own", home / "elsewhere/bin"):
            path.chmod(0o755)
        settings = SandboxSettings(extra_path=(str(tools), "~/elsewhere/bin"))
        done = await run(f"own; x; cat ~/elsewhere/secret; {FIND}", here, sandbox=sandbox(home, settings))
        assert done.text.startswith("own\nx\n")
        assert done.text.endswith("\n0\n")
        assert [note for note in done.notes if "tools/python3" in note and "extra_read" in note]
        more = SandboxSettings(extra_path=(str(tools),), extra_read=("~/src",))
        done = await run("python3", here, sandbox=sandbox(home, more))
        assert (done.text, done.notes) == ("mine\n", ())


async def test_what_the_user_names_is_shown_without_the_secrets_in_it() -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        here.mkdir()
        put(home, ".config/app/settings", "shown\n")
        put(home, ".config/gh/hosts.yml")
        put(home, "models/weights", "shown\n")
        put(base, "data/set", "shown\n")
        settings = SandboxSettings(
            extra_read=("~/.config", str(base / "data"), "~/missing"), extra_cache=("~/models", "~/models/weights")
        )
        command = f"cat ~/.config/app/settings ~/models/weights {base}/data/set; echo x > ~/models/new && echo cached; "
        done = await run(f"{command} touch ~/.config/x {base}/data/x; {FIND}", here, sandbox=sandbox(home, settings))
        assert done.text.startswith("shown\nshown\nshown\ncached\n")
        assert done.text.count("Read-only file system") == 2
        assert done.text.endswith("\n0\n")
        assert not (home / "models/new").exists()


@pytest.mark.parametrize("inside", ["state", "deep/down/state"])
async def test_what_is_hidden_is_hidden_wherever_it_was_moved(inside: str) -> None:
    with place() as base:
        home, here = base / "home", base / "ws"
        put(here, f"{inside}/token")
        put(home, ".nvm/state/token")
        put(home, "named/log.txt")
        hidden = (
            str(here / inside),
            str(home / ".nvm/state"),
            str(home / "named/log.txt"),
            str(here / "conf/hames.toml"),
        )
        settings = SandboxSettings(hidden=hidden, extra_read=("~/named",))
        command = (
            f"cat {inside}/token ~/.nvm/state/token ~/named/log.txt; {FIND}; grep -rc {CANARY} . ; "
            f"echo x > {inside}/forged; mv {inside} away; mv {inside.partition('/')[0]} away; "
            f"mkdir -p conf; echo x > conf/hames.toml; rm -rf {inside}; true"
        )
        for walled in (ReadOnly(), WorkspaceWrite()):
            done = await run(command, here, walled, sandbox=sandbox(home, settings))
            assert CANARY not in done.text
            assert [path.name for path in (here / inside).iterdir()] == ["token"]
            assert (here / inside / "token").read_text() == CANARY
            assert not (here / "conf/hames.toml").exists()


async def test_the_directory_a_command_starts_in_must_be_visible() -> None:
    with place() as base, place() as other:
        (base / "ws").mkdir()
        launch = Launch(argv=("/bin/true",), cwd=str(other), workspace=str(base / "ws"), policy=WorkspaceWrite())
        with pytest.raises(ToolFailed, match="is not visible in the sandbox"):
            await sandbox(base / "home").spawn(launch)


def test_a_moved_state_and_configuration_cannot_be_read_through_the_command() -> None:
    """The same from the command line: nobody has to name what is ours."""
    with place() as base:
        home, here = base / "home", base / "ws"
        home.mkdir()
        put(here, "state/tokens/secret")
        put(here, "config.toml", f'[providers.anthropic]\napi_key = "{CANARY}"\n')
        environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "HAMES_STATE": str(here / "state"),
            "HAMES_CONFIG": str(here / "config.toml"),
        }
        for name in ("readOnly", "workspaceWrite"):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "hames",
                    "sandbox",
                    "--sandbox",
                    name,
                    "--",
                    "sh",
                    "-c",
                    "cat state/*/* config.toml; ls",
                ],
                cwd=here,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert "state" in done.stdout, done.stderr
            assert CANARY not in done.stdout + done.stderr
