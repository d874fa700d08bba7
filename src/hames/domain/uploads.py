"""The ids of uploaded pictures, and the path that stands for one that is kept in a shared store.

Such a path is on no disk. Whichever node runs the turn gets the picture from the store.
"""

import re

DIRECTORY = "/hames-uploads"
NAME = "picture"

_ID = re.compile(r"up_[0-9a-f]{32}")


def is_upload_id(word: str) -> bool:
    return _ID.fullmatch(word) is not None


def shared_path(upload_id: str) -> str:
    """
    >>> shared_path("up_" + "0" * 32)
    '/hames-uploads/up_00000000000000000000000000000000/picture'
    """
    return f"{DIRECTORY}/{upload_id}/{NAME}"


def upload_of(path: str) -> str:
    """The id in such a path; empty: it is a path of a file.

    >>> upload_of(shared_path("up_" + "0" * 32))
    'up_00000000000000000000000000000000'
    >>> upload_of("/hames-uploads/../etc/picture")
    ''
    """
    directory, _, rest = path.rpartition(DIRECTORY + "/")
    upload_id, _, name = rest.partition("/")
    return upload_id if not directory and name == NAME and is_upload_id(upload_id) else ""
