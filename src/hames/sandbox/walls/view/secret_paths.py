"""Where secrets are kept, in the home directory and in the system's directories."""

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

HOME_SECRETS = tuple(
    """
    .1password .age .ansible_vault_pass .anthropic .atlassian .aws .aws-vault .azure .bash_history .bitcoin .boto
    .bundle/config .cache/huggingface/stored_tokens .cache/huggingface/token .cache/keepassxc .cargo/credentials
    .cargo/credentials.toml .chef .circleci .clasprc.json .claude.json .claude/.credentials.json .cloudflared
    .codex/auth.json .composer/auth.json .conan2/credentials.json .condarc .config/.wrangler .config/1Password
    .config/Bitwarden .config/BraveSoftware .config/Code/User/globalStorage .config/Cursor .config/Element
    .config/Mattermost .config/Signal .config/Slack .config/Yubico .config/act .config/aichat .config/anthropic
    .config/argocd .config/asciinema .config/atuin .config/bitbucket .config/borg .config/chromium
    .config/composer/auth.json .config/configstore .config/containers/auth.json .config/dart .config/discord
    .config/doctl .config/fly .config/gcloud .config/gh .config/git/credentials .config/github-copilot
    .config/glab-cli .config/google-chrome .config/goose .config/hames .config/hcloud .config/heroku .config/hub
    .config/huggingface .config/hut .config/ibmcloud .config/insomnia .config/io.datasette.llm .config/keepassxc
    .config/keybase .config/linode-cli .config/litecli .config/microsoft-edge .config/mods .config/msmtp
    .config/mutt .config/neomutt .config/netlify .config/ngrok .config/op .config/openai .config/opencode
    .config/pip/pip.conf .config/pnpm/rc .config/postman .config/protonmail .config/pulumi
    .config/pypoetry/auth.toml .config/rclone .config/restic .config/rslsync .config/s3cmd .config/scaleway
    .config/scw .config/sendgrid .config/sentry .config/solana .config/sops .config/stripe .config/supabase
    .config/tea .config/teleport .config/uv/uv.toml .config/vercel .config/vivaldi .config/wrangler .consul-token
    .continuum .copilot .credentials .curlrc .databrickscfg .docker .dockercfg .doppler .dotnet/corefx .dropbox
    .electrum .env .ethereum .expo .fetchmailrc .filezilla .fly .foundry/keystores .gcalcli_oauth .gem/credentials
    .gemini/oauth_creds.json .git-credential-cache .git-credentials .gnupg .gradle/gradle.properties .gsutil .helm
    .heroku .hex/hex.config .huggingface .ibmcloud .influxdbv2 .irb_history .ivy2/.credentials .jira.d
    .julia/servers .jupyter .kaggle .kerberos .keybase .keychain .kube .lftp .local/share/Bitwarden
    .local/share/TelegramDesktop .local/share/atuin .local/share/com.vercel.cli
    .local/share/containers/storage/secrets .local/share/fish/fish_history .local/share/gem/credentials
    .local/share/gopass .local/share/hames .local/share/jupyter/runtime .local/share/keyrings .local/share/kwalletd
    .local/share/opencode .local/share/password-store .local/share/uv/credentials .local/state/bash
    .local/state/hames .m2/settings-security.xml .m2/settings.xml .mailrc .mbsyncrc .mc .minikube .modal.toml
    .mongodb .mongorc.js .mozilla .msmtprc .muttrc .my.cnf .mylogin.cnf .mysql_history .netlify .netrc .ngrok2
    .node_repl_history .npmrc .nuget/NuGet .oci .offlineimaprc .okta .opam/credentials .openai .openshift .openvpn
    .ovhapi .packer.d .password-store .pgpass .pip/pip.conf .pki .psql_history .pub-cache/credentials.json
    .pulumi/credentials.json .putty .pypirc .python_history .qwen .rclone.conf .rediscli_history .s3cfg .saml2aws
    .sbt/.credentials .sentryclirc .sfdx .smbcredentials .snowflake .snowsql .sqlite_history .ssh .stack/config.yaml
    .step .streamlit/secrets.toml .subversion/auth .supabase .terraform.d/credentials.tfrc.json .terraformrc
    .thunderbird .token .tokens .transifexrc .travis .tugboat .twilio-cli .twurlrc .vagrant.d .vault-token .vercel
    .viminfo .vnc .vscode-server/data/User/globalStorage .wakatime.cfg .wandb .wget-hsts .wgetrc .wrangler .yarnrc
    .yarnrc.yml .zhistory .zsh_history .zsh_sessions Library/Keychains anaconda3/.condarc mambaforge/.condarc
    miniconda3/.condarc miniforge3/.condarc snap/bitwarden snap/chromium snap/firefox
    """.split()
)
"""Below the home directory. Hidden where the home directory is not a private one, and inside what is shown of it."""

# Readable to us mostly when we are root, and root is who runs harnesses in containers.
SYSTEM_SECRETS = tuple(
    """
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/ssl/private /etc/pki/tls/private /etc/sudoers
    /etc/sudoers.d /etc/sudo_logsrvd.conf /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/docker/key.json
    /etc/krb5.keytab /etc/kubernetes /etc/letsencrypt /etc/NetworkManager/system-connections /etc/openvpn
    /etc/ppp/chap-secrets /etc/ppp/pap-secrets /etc/rancher /etc/security/opasswd /etc/wireguard
    /etc/wpa_supplicant /run/secrets /var/run/secrets
    """.split()
)

# Settings of package tools that may hold a password for a registry.
_SETTINGS = tuple(
    "/etc/pip.conf /etc/npmrc /usr/etc/npmrc /etc/gitconfig /etc/uv/uv.toml /etc/xdg/pip/pip.conf".split()
)

_PASSWORD_WORDS = (b"_auth", b"_password", b"password", b"token", b"extraheader", b"insteadof")


def holds_something(path: str) -> bool:
    try:
        about = os.stat(path)
        if not stat.S_ISDIR(about.st_mode):
            return about.st_size > 0
        with os.scandir(path) as entries:
            return any(True for _ in entries)
    except OSError:
        return False


def system_secrets() -> list[str]:
    """Files and directories of the system that hold keys or passwords and that we could read."""
    return [*_known_secrets(), *_closed_to_others()]


def _known_secrets() -> Iterator[str]:
    yield from (path for path in SYSTEM_SECRETS if os.access(path, os.R_OK) and holds_something(path))
    yield from _host_keys()
    yield from (path for path in _SETTINGS if _holds_password(path))


def _host_keys() -> list[str]:
    try:
        return [entry.path for entry in os.scandir("/etc/ssh") if entry.name.endswith("_key")]
    except OSError:
        return []


def _holds_password(path: str) -> bool:
    try:
        about = os.stat(path)
    except OSError:
        return False
    return _mentions_password(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=32)
def _mentions_password(path: str, _changed_ns: int, _size: int) -> bool:
    try:
        text = Path(path).read_bytes().lower()
    except OSError:
        return False
    return any(word in text for word in _PASSWORD_WORDS) or b"@" in text.partition(b"://")[2]


def _closed_to_others() -> tuple[str, ...]:
    """As root: whatever in `/etc` an ordinary user could not read. An ordinary user needs no covers for that."""
    if os.geteuid() != 0:
        return ()
    # Deep down the directory is covered with all that is in it: each cover costs time.
    found = {path if path.count("/") < 4 else os.path.dirname(path) for path in _unreadable_to_others("/etc")}
    return tuple(path for path in sorted(found) if holds_something(path))


def _unreadable_to_others(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(about.st_mode):
            if about.st_mode & stat.S_IXOTH:
                yield from _unreadable_to_others(entry.path)
            else:
                yield entry.path
        elif stat.S_ISREG(about.st_mode) and about.st_size and not about.st_mode & stat.S_IROTH:
            yield entry.path
