"""What lies on the disk and is nobody's business inside a sandbox: keys and passwords, and other programs' sockets.

Most of it is not there at all, because the home directory and the root are lists of what is shown. Covers are for what
lies inside something that is shown. A listening socket is reached through a path, whatever the network namespace says,
so each one is covered. What starts to listen in a shown directory after the program has started is not.
"""

import errno
import os
import socket
import stat
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from hames.sandbox.mounts import Layers, Mount, inside, mount_points, now_and_then
from hames.sandbox.system_view import system_secrets

SECRETS: tuple[str, ...] = (
    ".1password",
    ".age",
    ".ansible_vault_pass",
    ".anthropic",
    ".atlassian",
    ".aws",
    ".aws-vault",
    ".azure",
    ".bash_history",
    ".bitcoin",
    ".boto",
    ".bundle/config",
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".cache/keepassxc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".chef",
    ".circleci",
    ".clasprc.json",
    ".claude.json",
    ".claude/.credentials.json",
    ".cloudflared",
    ".codex/auth.json",
    ".composer/auth.json",
    ".conan2/credentials.json",
    ".condarc",
    ".config/.wrangler",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/BraveSoftware",
    ".config/Code/User/globalStorage",
    ".config/Cursor",
    ".config/Element",
    ".config/Mattermost",
    ".config/Signal",
    ".config/Slack",
    ".config/Yubico",
    ".config/act",
    ".config/aichat",
    ".config/anthropic",
    ".config/argocd",
    ".config/asciinema",
    ".config/atuin",
    ".config/bitbucket",
    ".config/borg",
    ".config/chromium",
    ".config/composer/auth.json",
    ".config/configstore",
    ".config/containers/auth.json",
    ".config/dart",
    ".config/discord",
    ".config/doctl",
    ".config/fly",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/goose",
    ".config/hames",
    ".config/hcloud",
    ".config/heroku",
    ".config/hub",
    ".config/huggingface",
    ".config/hut",
    ".config/ibmcloud",
    ".config/insomnia",
    ".config/io.datasette.llm",
    ".config/keepassxc",
    ".config/keybase",
    ".config/linode-cli",
    ".config/litecli",
    ".config/microsoft-edge",
    ".config/mods",
    ".config/msmtp",
    ".config/mutt",
    ".config/neomutt",
    ".config/netlify",
    ".config/ngrok",
    ".config/op",
    ".config/openai",
    ".config/opencode",
    ".config/pip/pip.conf",
    ".config/pnpm/rc",
    ".config/postman",
    ".config/protonmail",
    ".config/pulumi",
    ".config/pypoetry/auth.toml",
    ".config/rclone",
    ".config/restic",
    ".config/rslsync",
    ".config/s3cmd",
    ".config/scaleway",
    ".config/scw",
    ".config/sendgrid",
    ".config/sentry",
    ".config/solana",
    ".config/sops",
    ".config/stripe",
    ".config/supabase",
    ".config/tea",
    ".config/teleport",
    ".config/uv/uv.toml",
    ".config/vercel",
    ".config/vivaldi",
    ".config/wrangler",
    ".consul-token",
    ".continuum",
    ".copilot",
    ".credentials",
    ".curlrc",
    ".databrickscfg",
    ".docker",
    ".dockercfg",
    ".doppler",
    ".dotnet/corefx",
    ".dropbox",
    ".electrum",
    ".env",
    ".ethereum",
    ".expo",
    ".fetchmailrc",
    ".filezilla",
    ".fly",
    ".foundry/keystores",
    ".gcalcli_oauth",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credential-cache",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".gsutil",
    ".helm",
    ".heroku",
    ".hex/hex.config",
    ".huggingface",
    ".ibmcloud",
    ".influxdbv2",
    ".irb_history",
    ".ivy2/.credentials",
    ".jira.d",
    ".julia/servers",
    ".jupyter",
    ".kaggle",
    ".kerberos",
    ".keybase",
    ".keychain",
    ".kube",
    ".lftp",
    ".local/share/Bitwarden",
    ".local/share/TelegramDesktop",
    ".local/share/atuin",
    ".local/share/com.vercel.cli",
    ".local/share/containers/storage/secrets",
    ".local/share/fish/fish_history",
    ".local/share/gem/credentials",
    ".local/share/gopass",
    ".local/share/hames",
    ".local/share/jupyter/runtime",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/opencode",
    ".local/share/password-store",
    ".local/share/uv/credentials",
    ".local/state/bash",
    ".local/state/hames",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mailrc",
    ".mbsyncrc",
    ".mc",
    ".minikube",
    ".modal.toml",
    ".mongodb",
    ".mongorc.js",
    ".mozilla",
    ".msmtprc",
    ".muttrc",
    ".my.cnf",
    ".mylogin.cnf",
    ".mysql_history",
    ".netlify",
    ".netrc",
    ".ngrok2",
    ".node_repl_history",
    ".npmrc",
    ".nuget/NuGet",
    ".oci",
    ".offlineimaprc",
    ".okta",
    ".opam/credentials",
    ".openai",
    ".openshift",
    ".openvpn",
    ".ovhapi",
    ".packer.d",
    ".password-store",
    ".pgpass",
    ".pip/pip.conf",
    ".pki",
    ".psql_history",
    ".pub-cache/credentials.json",
    ".pulumi/credentials.json",
    ".putty",
    ".pypirc",
    ".python_history",
    ".qwen",
    ".rclone.conf",
    ".rediscli_history",
    ".s3cfg",
    ".saml2aws",
    ".sbt/.credentials",
    ".sentryclirc",
    ".sfdx",
    ".smbcredentials",
    ".snowflake",
    ".snowsql",
    ".sqlite_history",
    ".ssh",
    ".stack/config.yaml",
    ".step",
    ".streamlit/secrets.toml",
    ".subversion/auth",
    ".supabase",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".thunderbird",
    ".token",
    ".tokens",
    ".transifexrc",
    ".travis",
    ".tugboat",
    ".twilio-cli",
    ".twurlrc",
    ".vagrant.d",
    ".vault-token",
    ".vercel",
    ".viminfo",
    ".vnc",
    ".vscode-server/data/User/globalStorage",
    ".wakatime.cfg",
    ".wandb",
    ".wget-hsts",
    ".wgetrc",
    ".wrangler",
    ".yarnrc",
    ".yarnrc.yml",
    ".zhistory",
    ".zsh_history",
    ".zsh_sessions",
    "Library/Keychains",
    "anaconda3/.condarc",
    "mambaforge/.condarc",
    "miniconda3/.condarc",
    "miniforge3/.condarc",
    "snap/bitwarden",
    "snap/chromium",
    "snap/firefox",
)
"""Below the home directory. Covered where the home directory is not a private one, and inside what is shown of it."""

_SOCKETS = ("/var/run/docker.sock", "/var/run/containerd/containerd.sock", "/var/lib/lxd/unix.socket")


def secret_mounts(home: str, *, more: Sequence[str], keep: Sequence[str], layers: Layers) -> list[Mount]:
    """Covers for all of them that `layers` would show. A writable root that a person named (`keep`) is not covered
    itself."""
    at_home = [f"{home}/{name}" for name in _shown_secrets(home, layers.bound)]
    found = {os.path.realpath(name) for name in (*at_home, *more) if os.access(name, os.R_OK)}
    covers = [*map(_cover, sorted(found)), *_of_the_system(now_and_then())]
    return [
        cover for cover in covers if cover.path not in keep and layers.shows(cover.path) and os.path.lexists(cover.path)
    ]


@lru_cache(maxsize=1)
def _of_the_system(_moment: int) -> tuple[Mount, ...]:
    return tuple(_cover(path) for path in system_secrets())


def _shown_secrets(home: str, bound: Sequence[str]) -> list[str]:
    if any(inside(home, path) for path in bound):
        return list(_worth_a_look(home))
    return [name for path in bound if path.startswith(f"{home}/") for name in _secrets_below(path[len(home) + 1 :])]


@lru_cache(maxsize=256)
def _secrets_below(directory: str) -> tuple[str, ...]:
    return tuple(name for name in SECRETS if inside(name, directory) and name != directory)


def _worth_a_look(home: str) -> Sequence[str]:
    """One listing instead of hundreds of questions. A directory that cannot be listed may still be entered."""
    try:
        there = frozenset(os.listdir(home))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return SECRETS
    return [name for name in SECRETS if name.partition("/")[0] in there]


def socket_mounts(layers: Layers, more: Iterable[str] = ()) -> list[Mount]:
    """Covers for other programs' sockets that `layers` would show: those the kernel lists by path, those mounted into
    this container, and `more`, which were found in the workspace."""
    bound = tuple(f"{path.rstrip('/')}/" for path in layers.bound)
    near = (path for path in (*_bound(), *mount_points(), *_SOCKETS) if path.startswith(bound) and _is_socket(path))
    listed = {real for path in near if layers.shows(real := os.path.realpath(path))}
    alive = {path for path in more if layers.shows(path) and is_alive(path)}
    return [Mount(path=path, how="masked") for path in sorted(listed | alive)]


def is_alive(path: str) -> bool:
    """Whether somebody listens there. The datagram that is never sent disturbs nobody: a listener of another kind
    is told apart by the error. A dead socket needs no cover, and a cover would keep its owner from removing it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            place = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
        except OSError:
            return True
        try:
            # Through a descriptor, because an address has room for 107 bytes.
            probe.connect(f"/proc/self/fd/{place}/{os.path.basename(path)}")  # noqa: PTH119
        except ConnectionRefusedError:
            return False
        except OSError as error:
            return error.errno != errno.ENOENT
        finally:
            os.close(place)
    return True


def _bound() -> list[str]:
    """Everything bound to a path in our network namespace, also what takes datagrams and never listens."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    columns = (line.split(maxsplit=7) for line in lines)
    return [fields[7] for fields in columns if len(fields) == 8 and fields[7].startswith("/")]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:
        return False


def _cover(path: str) -> Mount:
    return Mount(path=path, how="hidden" if Path(path).is_dir() else "masked")
