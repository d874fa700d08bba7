"""Contracts of our own for import-linter (`.importlinter` names them)."""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class OneRoomContract(Contract):
    """A module imports at most one room by itself; joining them is the work of the joiners.

    `together` are rooms that count as one for the modules in `together_in`.
    """

    rooms = fields.SetField(subfield=fields.StringField())
    joiners = fields.SetField(subfield=fields.StringField())
    together = fields.SetField(subfield=fields.StringField(), required=False)
    together_in = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        rooms: set[str] = set(self.rooms)  # type: ignore[call-overload]
        joiners: set[str] = set(self.joiners)  # type: ignore[call-overload]
        together: set[str] = set(self.together or ())  # type: ignore[call-overload]
        together_in: set[str] = set(self.together_in or ())  # type: ignore[call-overload]
        broken: dict[str, list[str]] = {}
        for module in graph.modules:
            # The package itself only names what it offers.
            if module == "hames" or not module.startswith("hames.") or _within(module, rooms | joiners):
                continue
            found = {room for one in graph.find_modules_directly_imported_by(module) if (room := _within(one, rooms))}
            counted = found - together | ({"together"} if found & together else set())
            if len(counted if _within(module, together_in) else found) > 1:
                broken[module] = sorted(found)
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for module, rooms in sorted(check.metadata["broken"].items()):
            output.print_error(f"{module} imports {', '.join(rooms)}: let hames.app join them")


def _within(module: str, packages: set[str]) -> str | None:
    return next((one for one in packages if module == one or module.startswith(f"{one}.")), None)
