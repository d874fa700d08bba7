"""API keys that `hames login` saved for this user.

A key is in the operating system's keyring where the `keyring` package finds one, otherwise in a file beside the
user's configuration that nobody else can read. The file also names the keys that are in the keyring: a start that
needs none never asks it.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from hames.config.edit_file import write_user_file
from hames.config.paths import user_config
from hames.domain.errors import Misconfigured
from hames.domain.value import Value

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "hames"
FILE = "credentials.json"


class Credential(Value):
    """`value` is empty when the key is in the keyring."""

    where: Literal["file", "keyring"]
    value: str = ""


class Credentials:
    """Keys by the environment variable that providers read, such as `ANTHROPIC_API_KEY`."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @classmethod
    def of_user(cls, environment: Mapping[str, str]) -> "Credentials":
        return cls(Path(user_config(environment)).parent / FILE)

    def saved(self) -> dict[str, Credential]:
        """Raises `Misconfigured` for a file that cannot be read."""
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=dict[str, Credential])
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as failure:
            raise Misconfigured(f"cannot read {str(self.file)!r}: {failure.strerror}") from None
        except msgspec.DecodeError:
            raise Misconfigured(f"{str(self.file)!r} is damaged: delete it and run hames login again") from None

    def values(self) -> dict[str, str]:
        """Every key that can be had. One that the keyring does not give up is left out."""
        found = {name: self._value(name, credential) for name, credential in self.saved().items()}
        return {name: value for name, value in found.items() if value}

    def save(self, name: str, value: str, *, use_keyring: bool = True) -> str:
        """Where it is now, in words for people."""
        keyring = _keyring() if use_keyring else None
        if keyring is not None:
            with suppress(Exception):  # a locked or broken keyring is as good as none
                keyring.set_password(SERVICE, name, value)
                self._write({**self.saved(), name: Credential(where="keyring")})
                return f"the keyring ({keyring.name})"
        self._write({**self.saved(), name: Credential(where="file", value=value)})
        return str(self.file)

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        saved = self.saved()
        credential = saved.pop(name, None)
        if credential is None:
            return False
        if credential.where == "keyring" and (keyring := _keyring()) is not None:
            with suppress(Exception):
                keyring.delete_password(SERVICE, name)
        self._write(saved)
        return True

    def _value(self, name: str, credential: Credential) -> str:
        if credential.where == "file":
            return credential.value
        keyring = _keyring()
        if keyring is None:
            return ""
        try:
            return keyring.get_password(SERVICE, name) or ""
        except Exception:  # every backend has errors of its own
            return ""

    def _write(self, credentials: dict[str, Credential]) -> None:
        write_user_file(self.file, msgspec.json.format(msgspec.json.encode(credentials)).decode() + "\n")


def _keyring() -> "KeyringBackend | None":
    """The user's keyring, if the package is installed and finds one that works."""
    try:
        import keyring
    except ImportError:
        return None
    backend = keyring.get_keyring()
    # Backends below 1 protect less than our own file; they are used only if the environment names them.
    chosen = backend.priority >= 1 or (backend.priority > 0 and os.environ.get("PYTHON_KEYRING_BACKEND"))
    return backend if chosen else None
