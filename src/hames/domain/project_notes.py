"""Project notes: files such as AGENTS.md that tell the model how to work here. They are never configuration."""

from hames.domain.value import Value


class Note(Value):
    """One file. `text` is what the model is shown of it; `problem` says why that is not all of it, or nothing."""

    path: str
    text: str = ""
    problem: str = ""


class NoteFile(Value):
    """A file whose text the model is shown, as the log has it."""

    path: str


def note_files(notes: tuple[Note, ...]) -> tuple[NoteFile, ...]:
    return tuple(NoteFile(path=note.path) for note in notes if note.text)


def complaint(note: Note) -> str:
    """The sentence about a file that is ignored or cut; nothing for one that is shown whole."""
    if not note.problem:
        return ""
    return f"{note.path} is cut: {note.problem}" if note.text else f"{note.path} is ignored because {note.problem}"
