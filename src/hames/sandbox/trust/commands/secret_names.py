"""Which files hold secrets, by their names. Reading one is asked about.

Names can only be guessed at: a list that is long where people keep secrets, and leaves alone what programmers read
every day (`.env.example`, `public.pem`, `secrets.go`).
"""

import re

_DATA = r"(?:\.(?:cfg|conf|csv|dat|enc|env|ini|json|plist|properties|toml|txt|xml|ya?ml))?"
_CODE = tuple(
    ".c .cc .cpp .cs .css .dart .ex .exs .go .h .hpp .html .java .js .jsx .kt .lua .md .mjs .php .pl .proto .py .pyi "
    ".rb .rs .rst .scala .sh .sql .svelte .swift .tf .ts .tsx .vue".split()
)
_LONGEST_NAME = 255
_HARMLESS = re.compile(
    r".*\.(?:dist|example|sample|template|tmpl|pub|md)|.*(?:^|[._-])(?:example|sample|template)(?:[._-].*)?"
    r"|public.*\.pem|.*[._-]pub(?:lic)?\.pem|ca-?(?:cert|bundle|certificates)s?\.pem"
)
_COPIES = re.compile(r"(?:~|\.(?:backup|bak|copy|old|orig|save|swp|\d))+$")

_NAMES = re.compile(
    "|".join(
        (
            # Environments
            r"\.env(?:[._-].*)?|\.envrc|.+\.env",
            r"env\.(?:dev|development|live|local|prod|production|secret|staging|stage|test)",
            # Keys and certificates
            r".+\.(?:agekey|jks|kdbx?|key|keychain|keystore|keytab|ovpn|p12|p8|pem|pfx|pkcs12|ppk)",
            r"id_(?:dsa|ecdsa|ed25519|rsa)(?:[._-].*)?|.+[._-](?:dsa|ecdsa|ed25519|rsa)|ssh_host_.*_key",
            r"(?:.*[._-])?(?:access|api|auth|deploy|encryption|host|private|root|secret|service|session|signing)"
            rf"[._-]?keys?{_DATA}",
            r"keystore\.properties|key\.properties|wallet\.dat|\.erlang\.cookie|secring\.gpg",
            # Passwords and tokens
            rf"(?:.*[._-])?(?:passphrase|passwd|password|pwd)s?{_DATA}",
            rf"(?:.*[._-])?(?:secret|client_secret)s?(?:[._-].*)?{_DATA}",
            r"(?:.*[._-])?tokens?(?:\.txt|\.dat)?|(?:.*[._-])?token\.(?:json|ya?ml|toml)|.+\.tokens?",
            rf"(?:.*[._-])?(?:credential|cred)s?(?:[._-].*)?{_DATA}|.+\.cred(?:ential)?s",
            r"\.?htpasswd|shadow|gshadow|\.?vault[._-]?pass.*|\.vault-token",
            r"cookies?\.(?:txt|json|sqlite)|cookie[._-]?jar",
            # Tools
            r"\.netrc|_netrc|\.npmrc|\.pypirc|\.pgpass|pgpass\.conf|\.my\.cnf|\.mylogin\.cnf|\.s3cfg|\.boto|\.terraformrc",
            r"\.git-credentials|\.dockercfg|\.dockerconfigjson|\.(?:bash|zsh|python|psql|mysql)_history",
            r".*\.tfstate|.*\.tfvars(?:\.json)?|(?:.*[._-])?kubeconfig(?:\..*)?|.+\.kubeconfig|rclone\.conf",
            r"auth\.json|database\.yml|wp-config.*\.php|settings-security\.xml|sftp-config\.json|\.ftpconfig",
            r"local\.settings\.json|master\.key|google-services\.json|googleservice-info\.plist",
            r"service[._-]?accounts?.*\.json|.*firebase-adminsdk.*\.json|gcp[._-]?key.*\.json|.*accesskeys\.csv",
        )
    )
)
_DIRECTORIES = frozenset((".aws", ".azure", ".docker", ".gcloud", ".gnupg", ".kube", ".oci", ".password-store", ".ssh"))
_DATA_DIRECTORIES = frozenset((".secrets", "secrets"))


def is_secret_file(name: str) -> bool:
    """Whether a file of this name usually holds something that is not for everyone.

    >>> [name for name in (".env", "prod.env", ".env.example", "id_rsa.pub", "server.key.bak") if is_secret_file(name)]
    ['.env', 'prod.env', 'server.key.bak']
    """
    folded = _COPIES.sub("", name.casefold())
    if len(folded) > _LONGEST_NAME or _HARMLESS.fullmatch(folded) or _is_code(folded):
        return False
    return _NAMES.fullmatch(folded) is not None


def _is_code(name: str) -> bool:
    return name.endswith(_CODE) and not name.startswith("wp-config")


def is_secret_directory(name: str) -> bool:
    """Whether everything below a directory of this name is private, its listing included."""
    return name.casefold() in _DIRECTORIES


def is_secret_path(path: str) -> bool:
    """Whether a file at this path is a secret, by its own name or by where it lies."""
    names = [name.casefold() for name in path.split("/") if name not in ("", ".", "..")]
    if not names:
        return False
    return (
        any(map(is_secret_directory, names))
        or is_secret_file(names[-1])
        or (not _DATA_DIRECTORIES.isdisjoint(names[:-1]) and not _is_code(names[-1]))
    )
