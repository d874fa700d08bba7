"""The tutorial is walked through, and the generated pages are up to date."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hames.config.load import load

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "clients.md").read_text().partition("## Step by step")[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SECTIONS = {"agents", "mcp_servers", "providers", "language_servers"}
"""The tables that a configuration file of ours may have."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TUTORIAL, re.DOTALL)


@pytest.mark.needs("bwrap", "bash")
def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}
    work = tmp_path / "work"
    work.mkdir()

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    (work / "script.json").write_text(blocks("json")[0])
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ hames")]
    assert len(commands) == 4
    said = [run("bash", "-c", command) for command in commands]
    assert "Hello." in said[0]
    assert "Done." in said[1]
    assert (work / "note.txt").read_text() == "I was here\n"
    (work / "note.txt").unlink()
    heard = run(sys.executable, "-c", blocks("python")[0])
    assert "approve?" in heard
    assert "CommandExecutionItem" in heard
    assert (work / "note.txt").exists()


def test_the_reference_is_what_the_schemas_say() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_the_page_about_configuration_is_what_the_types_say() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "configuration.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_examples_of_the_page_about_configuration_are_accepted(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        (tmp_path / "config.toml").write_text(example)
        environment = {"HAMES_CONFIG": str(tmp_path / "config.toml"), "HAMES_STATE": str(tmp_path / "state")}
        options = load({"cwd": str(tmp_path)}, environment)
        assert options.settings


def test_every_page_of_the_site_exists() -> None:
    named = re.findall(r": ([a-z/-]+\.md)", (ROOT / "mkdocs.yml").read_text())
    assert named
    assert all((ROOT / "docs" / name).exists() for name in named)
    for page in (ROOT / "docs").rglob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+\.md)", page.read_text()):
            assert (page.parent / link).resolve().exists(), f"{page.name} -> {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_section_leads_to_a_heading(page: Path) -> None:
    text = page.read_text()
    for file, anchor in re.findall(r"\]\(([a-zA-Z/._-]*)#([^)]+)\)", text):
        target = (page.parent / file).resolve() if file else page
        assert anchor in anchors(target.read_text()), f"{page.name} -> {file}#{anchor}"


def anchors(text: str) -> set[str]:
    """As mkdocs and GitHub make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "migrating.md"], ids=lambda page: page.name
)  # fmt: skip
def test_a_table_of_the_configuration_that_is_named_exists(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    named = set(re.findall(r"`\[([a-z_]+)(?:\.[A-Za-z_]+)?\][` ]", prose))
    assert named <= SECTIONS, f"{page.name} names {named - SECTIONS}"


def test_first_steps_are_those_of_somebody_who_wants_to_use_it() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    order = [
        "pip install hames",
        "hames demo",
        "hames setup",
        "base_url",
        "\n| y |",
        "/diff",
        "`/undo`",
        "hames --continue",
    ]
    order += ["hames serve", "hames run"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert "AppServerClient" not in text
