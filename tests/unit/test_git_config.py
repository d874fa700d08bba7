"""Which settings of git are harmless, and how the others are disabled."""

# ruff: noqa: E501 - tables

import pytest

from hames.sandbox.walls.after_command.git.config import (
    ConfigJudge,
    GitSetting,
    UnreadableConfig,
    is_plain_address,
    read_config,
    without_settings,
)

HARMFUL = """
core.fsmonitor=x core.hookspath=x core.sshcommand=x core.pager=x core.editor=x core.askpass=x core.gitproxy=x
core.alternaterefscommand=x core.attributesfile=x core.excludesfile=x core.worktree=/outside sequence.editor=x
filter.x.clean=x filter.x.smudge=x filter.x.process=x filter.x.required=true diff.external=x diff.x.command=x
diff.x.textconv=x diff.tool=x difftool.x.cmd=x difftool.x.path=x mergetool.x.cmd=x merge.x.driver=x merge.tool=x
credential.helper=x credential.https://h.helper=x gpg.program=x gpg.ssh.program=x gpg.ssh.defaultkeycommand=x
gpg.x509.program=x alias.st=status alias.st.command=x include.path=x includeif.gitdir:x.path=x
remote.o.uploadpack=x remote.o.receivepack=x remote.o.proxy=x remote.o.vcs=x remote.o.url=ext::x remote.o.pushurl=fd::x
remote.o.url=-x remote.o.url=ssh://-oProxyCommand=x/y remote.o.url=foo://x url.ext::x.insteadof=https url.x.pushinsteadof=y
submodule.m.update=!x submodule.m.url=ext::x branch.b.remote=ext::x branch.b.mergeoptions=-sx pull.twohead=x pull.octopus=x
protocol.allow=always protocol.ext.allow=always uploadpack.packobjectshook=x receive.procreceiverefs=x interactive.difffilter=x
pager.log=x browser.x.cmd=x web.browser=x help.browser=x man.x.cmd=x man.viewer=x instaweb.httpd=x sendemail.smtpserver=x
sendemail.tocmd=x tar.x.command=x trailer.x.command=x trailer.x.cmd=x gc.recentobjectshook=x guitool.x.cmd=x
commit.template=x init.templatedir=x http.proxy=x http.extraheader=x http.sslverify=false http.cookiefile=x lfs.url=x
lfs.customtransfer.x.path=x lfs.extension.x.clean=x svn-remote.x.url=x imap.tunnel=x p4.client=x something.new=x core.x.y=z
user.signingkey=x safe.directory=* bundle.uri=x fetch.bundleuri=x trace2.eventtarget=x mailmap.file=x blame.ignorerevsfile=x
notes.displayref=x format.signaturefile=x diff.orderfile=x core.splitindex.x=y
""".split()
HARMLESS = """
core.repositoryformatversion=0 core.filemode=true core.bare=false core.logallrefupdates=true core.ignorecase=true
core.symlinks=true core.precomposeunicode=true core.autocrlf=input core.worktree=../../../sub core.fsmonitor=false
core.fsmonitor=true core.sparsecheckout=true extensions.worktreeconfig=true extensions.objectformat=sha256
remote.origin.url=https://example.org/x.git remote.origin.url=git@example.org:x.git remote.origin.url=/path/x
remote.origin.url=../x remote.origin.url=file:///x remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*
remote.origin.promisor=true remote.origin.partialclonefilter=blob:none branch.main.remote=origin branch.main.merge=refs/heads/main
branch.a.b.c.rebase=true branch.main.remote=. submodule.m.url=../m submodule.m.active=true submodule.m.update=rebase
submodule.active=. user.name=me user.email=me@example.org pull.rebase=true push.default=simple init.defaultbranch=main
merge.conflictstyle=zdiff3 diff.algorithm=histogram rerere.enabled=1 gc.auto=0 color.ui=auto color.diff.meta=yellow
advice.detachedhead=false uploadpack.allowfilter=true receive.denycurrentbranch=updateInstead lfs.repositoryformatversion=0
""".split()


def setting(text: str) -> GitSetting:
    key, _, value = text.partition("=")
    return GitSetting(key=key, value=value)


judge = ConfigJudge((), inside=lambda path: not path.startswith("/outside"))


@pytest.mark.parametrize("text", HARMFUL)
def test_what_can_run_a_program_or_lead_elsewhere_is_harmful(text: str) -> None:
    assert judge.harmful(setting(text))
    assert not ConfigJudge([setting(text)], inside=lambda path: False).harmful(setting(text)), (
        "unless it is the user's own"
    )


@pytest.mark.parametrize("text", HARMLESS)
def test_what_repositories_are_made_of_is_harmless(text: str) -> None:
    assert not judge.harmful(setting(text))


def test_a_setting_of_the_users_own_with_another_value_is_harmful() -> None:
    own = ConfigJudge([setting("core.editor=vi")], inside=lambda path: True)
    assert own.harmful(setting("core.editor=x"))


def test_disabled_settings_are_comments_and_the_rest_stays_byte_for_byte() -> None:
    text = b"; mine\r\n[core]\r\n\tbare = false\r\n[core] fsmonitor = a \\\n   b # c\n[user]\n\tname = \xff\xfe\n[alias]st=!x"
    harmless, removed = without_settings(text, judge.harmful)
    assert harmless == (
        b"; mine\r\n[core]\r\n\tbare = false\r\n[core] # Disabled by hames: fsmonitor = a \\ b # c\n[user]\n\tname = \xff\xfe\n"
        b"[alias]# Disabled by hames: st=!x"
    )
    assert [item.key for item in removed] == ["core.fsmonitor", "alias.st"]
    assert without_settings(harmless, judge.harmful) == (harmless, [])


@pytest.mark.parametrize(
    "text",
    [
        b"x",
        b"x = 1",
        b"[a",
        b"[a b]",
        b'[a "b]',
        b"[a]\n=",
        b"[a]\n1 = 2",
        b'[a]\nb = "c',
        b"[a]\nb = \\x",
        b"[]\nb",
        b"[a]\nb c",
        b"[a]\n\0",
    ],
)
def test_what_git_refuses_is_not_called_harmless(text: bytes) -> None:
    with pytest.raises(UnreadableConfig):
        read_config(text)


def test_addresses_that_name_a_program_are_not_plain() -> None:
    for address in (
        "ext::sh -c x",
        "EXT::x",
        "a-b::x",
        "-oProxyCommand=x",
        "ssh://-x/y",
        "foo://x",
        "a\nb",
        "git+ext::x",
    ):
        assert not is_plain_address(address), address
    for address in (
        "https://x/y",
        "HTTPS://x/y",
        "ssh://git@x:22/y",
        "git@x:y",
        "x:y",
        "/a::b",
        "./a",
        "C:/x",
        "",
        "origin",
    ):
        assert is_plain_address(address), address
