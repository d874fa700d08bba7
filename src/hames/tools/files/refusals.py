"""Why a file was left alone, from the system's answer, and names as they are shown and compared."""

import errno
import os
import unicodedata

from hames.ports.workspace import Denied, FileRefused, LinkInTheWay, Missing, NotRegular, Outside, Unsteady


def shown(name: str) -> str:
    """A file name as text that can be sent and printed: undecodable bytes and control characters are escaped."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def folded(name: str) -> str:
    """A name as a file system that folds case would compare it, invisible characters left out."""
    visible = "".join(c for c in unicodedata.normalize("NFKD", name) if unicodedata.category(c) != "Cf")
    return visible.casefold().rstrip(". ")


def explained(error: OSError, path: str) -> FileRefused:
    """What the system's answer means for `path`."""
    name = repr(shown(path))
    match error.errno:
        case errno.EXDEV:
            return Outside(f"{name} leads outside the workspace")
        case errno.ELOOP:
            return LinkInTheWay(f"{name} is a symbolic link or lies behind one; name the real file")
        case errno.ENOENT:
            return Missing(f"no file {name}")
        case errno.ENOTDIR:
            return Missing(f"no file {name}: a part of its path is not a directory")
        case errno.EISDIR:
            return NotRegular(f"{name} is a directory")
        case errno.ENXIO | errno.ENODEV | errno.EOPNOTSUPP:
            return NotRegular(f"{name} is not a regular file")
        case errno.EEXIST:
            return Unsteady(f"{name} has appeared in the meantime")
        case errno.EAGAIN:
            return Unsteady(f"the path to {name} keeps changing")
        case _:
            return Denied(f"{name}: {(error.strerror or str(error)).lower()}")
