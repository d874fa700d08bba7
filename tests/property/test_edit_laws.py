"""An edit with a slightly wrong text does what the right one would have done, or nothing."""

import ast
import random

import pytest

from hames.tools.edits.matching import find_edits

WORDS = ("alpha", "beta", "gamma", "delta", "count", "total", "items", "index", "value", "name")
STEPS = ("  ", "    ", "\t")


def program(rng: random.Random) -> list[str]:
    """Lines of a Python program with blocks, quotes and blank lines; one step of indentation is `    `."""
    lines: list[str] = []

    def block(depth: int, budget: int) -> None:
        for _ in range(rng.randint(1, 4)):
            indent = "    " * depth
            word, other = rng.choice(WORDS), rng.choice(WORDS)
            match rng.randrange(6):
                case 0 if depth < 3 and budget > 0:
                    lines.append(f"{indent}if {word} > {rng.randint(0, 99)}:")
                    block(depth + 1, budget - 1)
                case 1 if depth < 3 and budget > 0:
                    lines.append(f"{indent}def {word}_{rng.randint(0, 999)}({other}):")
                    block(depth + 1, budget - 1)
                case 2:
                    lines.append(f'{indent}{word} = "{other} {rng.randint(0, 99)}"')
                case 3:
                    lines.append(f"{indent}{word}[{rng.randint(0, 9)}] = {other} - {rng.randint(0, 99)}")
                case 4:
                    lines.append(f"{indent}# it’s the “{word}” – {rng.randint(0, 999)}")
                    lines.append(f"{indent}{other} += 1")
                case _:
                    lines.append(f"{indent}print({word}, '{other}')")
            if rng.random() < 0.2:
                lines.extend([""] * rng.randint(1, 2))

    while len(lines) < rng.randint(6, 40):
        block(0, 3)
    return lines


def changed(rng: random.Random, lines: list[str]) -> list[str]:
    """What a model might want instead: a line changed, added, removed, or put into a block of its own."""
    new, at = list(lines), rng.randrange(len(lines))
    line = new[at]
    indent = line[: len(line) - len(line.lstrip())]
    match rng.randrange(5):
        case 0 if line.strip():
            new[at] = line.replace("1", "77").replace("e", "E", 1) if line.strip() else line
        case 1:
            new.insert(at, f"{indent}added = {rng.randint(0, 9999)}")
        case 2 if len(new) > 1:
            del new[at]
        case 3 if line.strip() and not line.rstrip().endswith(":"):
            new[at : at + 1] = [f"{indent}if ready:", f"    {line}"]
        case _:
            new.insert(at + 1, f"{indent}print(“x”, 'y')")
    return new


def slipped(rng: random.Random, old: list[str], new: list[str], step: str) -> tuple[list[str], list[str]]:
    """Both texts as a model might remember them."""
    kind = rng.randrange(7)
    if kind == 0:  # trailing whitespace
        return [line + "  " if rng.random() < 0.5 else line for line in old], new
    if kind == 1:  # other steps of indentation
        other = rng.choice([one for one in ("  ", "    ", "\t") if one != step])
        return [_stepped(line, step, other) for line in old], [_stepped(line, step, other) for line in new]
    if kind == 2:  # shifted to the left
        common = min((_depth(line, step) for line in [*old, *new] if line.strip()), default=0)
        cut = len(step) * rng.randint(0, common)
        return [line[cut:] if line.strip() else line for line in old], [
            line[cut:] if line.strip() else line for line in new
        ]
    if kind == 3:  # plain quotes and dashes for typographic ones
        plain = str.maketrans({"’": "'", "“": '"', "”": '"', "–": "-"})
        return [line.translate(plain) for line in old], [line.translate(plain) if line in old else line for line in new]
    if kind == 4:  # whitespace in blank lines
        return [line or "    " for line in old], new
    if kind == 5:  # shifted to the right
        return [step + line if line else line for line in old], [step + line if line else line for line in new]
    return [line.replace(" - ", "-") for line in old], [
        line.replace(" - ", "-") if line in old else line for line in new
    ]


def _depth(line: str, step: str) -> int:
    return (len(line) - len(line.lstrip())) // len(step)


def _stepped(line: str, step: str, other: str) -> str:
    return other * _depth(line, step) + line.lstrip() if line.strip() else line


def try_one(seed: int) -> str:
    """`applied`, `refused` or `exact`; raises when a file was corrupted."""
    rng = random.Random(seed)
    step = rng.choice(STEPS)
    lines = [_stepped(line, "    ", step) for line in program(rng)]
    start = rng.randrange(len(lines))
    end = min(len(lines), start + rng.randint(1, 6))
    old = lines[start:end]
    new = [_stepped(line, "    ", step) for line in changed(rng, [_stepped(line, step, "    ") for line in old])]
    if old == new or not "".join(old).strip():
        return "exact"
    body = "\n".join(lines) + "\n"
    right = "\n".join([*lines[:start], *new, *lines[end:]]) + "\n"
    given, wanted = ("\n".join(part) + "\n" for part in slipped(rng, old, new, step))
    if given in body:
        return "exact"
    edits = find_edits(body, given, wanted)
    if len(edits) != 1:
        return "refused"
    edit = edits[0]
    result = body[: edit.start] + edit.text + body[edit.end :]
    assert result == right, (
        f"seed {seed}\n--- given\n{given}\n--- wanted\n{wanted}\n--- result\n{result}\n--- right\n{right}"
    )
    return "applied"


def run(count: int) -> dict[str, int]:
    outcomes = {"applied": 0, "refused": 0, "exact": 0}
    for seed in range(count):
        outcomes[try_one(seed)] += 1
    return outcomes


def test_a_slice_of_random_near_misses_corrupts_nothing() -> None:
    outcomes = run(600)
    assert outcomes["applied"] > outcomes["refused"] / 2


@pytest.mark.slow
def test_ten_thousand_random_near_misses_corrupt_nothing() -> None:
    outcomes = run(20_000)
    assert outcomes["applied"] + outcomes["refused"] > 10_000
    print(outcomes)


def test_the_programs_of_this_test_are_programs() -> None:
    for seed in range(50):
        ast.parse("\n".join(program(random.Random(seed))))
