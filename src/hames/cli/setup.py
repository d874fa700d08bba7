"""Choose a model provider, save its key, test it, and check the sandbox. Run this once after installing.

  hames setup                                      asks for everything it needs
  hames setup --provider anthropic < key.txt       no questions; the key comes from stdin
  hames setup --provider ollama --model qwen3      a local server needs no key

Nothing is changed that is not said: the key goes where `hames login` puts it, the model into your configuration file,
and shell completion is installed only if you agree.
Exit code: 0 when hames is ready, 1 when the key is refused or the sandbox does not hold, 2 for a bad option.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import anyio

from hames.cli import login
from hames.cli.paint import Paint
from hames.config.credentials import Credentials
from hames.config.options import load
from hames.config.paths import user_config
from hames.config.user_file import set_value
from hames.domain.display import printable, visible
from hames.domain.errors import HarnessError, InvalidCommand
from hames.domain.policy import WorkspaceWrite

OFFERED = {
    "anthropic": "Claude, with an API key",
    "openai": "GPT, with an API key",
    "openrouter": "many models, with one API key",
    "ollama": "models on this machine, no key",
}
COMPLETIONS = {
    "bash": ".local/share/bash-completion/completions/hames",
    "zsh": ".zfunc/_hames",
    "fish": ".config/fish/completions/hames.fish",
}
SHOWN_MODELS = 8


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--provider", metavar="PROVIDER", help="such as anthropic, openai or ollama")
    parser.add_argument("--model", metavar="MODEL", help="the model that new threads use")
    parser.add_argument("--no-test", action="store_true", help="save the key without a test call")
    parser.add_argument("--no-sandbox-check", action="store_true", help="do not try to break out of the sandbox")


def run(args: Namespace) -> int:
    if args.provider is None and not sys.stdin.isatty():
        raise InvalidCommand("there is no terminal to ask on; name a provider: hames setup --provider anthropic")
    return _Setup(args).run()


class _Setup:
    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._paint = Paint.for_stream(sys.stdout)
        self._asks = args.provider is None

    def run(self) -> int:
        provider = self._args.provider or self._chosen_provider()
        if provider == "":
            print("\nNo provider was chosen. `hames demo` shows a task on a scripted model, without a key.")
        elif not (self._key(provider) and self._model(provider)):
            return 1
        held = self._sandbox()
        if self._asks:
            self._completion()
        print(f'\n{self._paint.bold("Ready.")} Start `hames` in a project, or try: hames run "What is this project?"')
        return 0 if held else 1

    def _chosen_provider(self) -> str:
        print(self._paint.bold("Which model provider do you want to use?"))
        names = list(OFFERED)
        for number, name in enumerate(names, 1):
            has_key = self._paint.good("  (has a key)") if _has_key(name) else ""
            print(f"  {number}  {name:<12} {OFFERED[name]}{has_key}")
        others = ", ".join(name for name in login.providers() if name not in OFFERED)
        print(f"  or type another name: {others}\n  {len(names) + 1}  none for now")
        preferred = next((at for at, name in enumerate(names, 1) if _has_key(name)), 1)
        while True:
            answer = _ask(f"Number or name [{preferred}]: ") or str(preferred)
            if answer == str(len(names) + 1):
                return ""
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            if answer in login.providers():
                return answer
            print(f"{visible(answer)!r} is not one of them.")

    def _key(self, provider: str) -> bool:
        """Whether the provider can be used."""
        variable = login.key_variable(provider)
        if _has_key(provider) or not _needs_key(provider):
            key = load({}, os.environ).environment.get(variable, "")
            return self._tested(provider, key)
        while True:
            key = login.read_key(provider)
            if self._tested(provider, key):
                where = Credentials.of_user(os.environ).save(variable, key)
                self._good(f"The key is saved in {where}")
                return True
            if not self._asks or _ask("Try another key? [Y/n] ").lower().startswith("n"):
                return False

    def _tested(self, provider: str, key: str) -> bool:
        if self._args.no_test:
            return True
        problem = anyio.run(login.try_key, provider, key)
        if problem:
            self._bad(printable(problem))
            return False
        self._good(f"{provider} answers")
        return True

    def _model(self, provider: str) -> bool:
        """Writes the model of new threads into the user's configuration."""
        from hames.app import catalogue

        models = catalogue(load({}, os.environ))
        offered = [card for card in models.cards() if card.provider == provider and not card.successor]
        usual = models.find(models.default)
        default = usual.id if usual.provider == provider else offered[0].id if offered else ""
        wanted = self._args.model or (
            self._chosen_model([card.id for card in offered], default) if self._asks else default
        )
        if not wanted:
            self._bad(f"{provider} lists no models: name one with --model")
            return False
        try:
            card = models.find(wanted if wanted.startswith(f"{provider}/") else f"{provider}/{wanted}")
        except HarnessError as problem:
            self._bad(str(problem))
            return False
        file = Path(user_config(os.environ))
        set_value(file, "model", card.id)
        self._good(f"New threads use {card.id} ({file})")
        return True

    def _chosen_model(self, offered: list[str], default: str) -> str:
        print(self._paint.bold("\nWhich model do new threads use?"))
        for name in offered[:SHOWN_MODELS]:
            print(f"  {name}")
        if len(offered) > SHOWN_MODELS:
            print(f"  and {len(offered) - SHOWN_MODELS} more: hames models")
        return _ask(f"Model [{default}]: " if default else "Model: ") or default

    def _sandbox(self) -> bool:
        if self._args.no_sandbox_check:
            return True
        print("\nTrying to break out of the sandbox on this machine …", flush=True)
        good, says = anyio.run(_proved)
        (self._good if good else self._bad)(says)
        return good

    def _completion(self) -> None:
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in COMPLETIONS:
            return
        file = Path.home() / COMPLETIONS[shell]
        if file.exists() or not _ask(f"\nInstall completion for {shell} into {file}? [y/N] ").lower().startswith("y"):
            return
        from hames.cli.completion import completion_script

        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(completion_script(shell) + "\n")
        self._good(f"Completion works in the next {shell} you open")

    def _good(self, sentence: str) -> None:
        print(f"{self._paint.good('✓')} {visible(sentence)}", flush=True)

    def _bad(self, sentence: str) -> None:
        print(f"{self._paint.bad('✗')} {visible(sentence)}", flush=True)


async def _proved() -> tuple[bool, str]:
    from hames.sandbox.local import LocalSandbox
    from hames.sandbox.proof.escape_test import prove

    walls = await LocalSandbox().walls()
    if walls.kind == "none":
        return False, walls.sentence
    try:
        tried = await prove(WorkspaceWrite())
    except HarnessError as problem:
        return False, str(problem)
    out = [one.attempt for one in tried if one.escaped and not one.known]
    if out:
        return False, f"{len(out)} of {len(tried)} ways out of the sandbox are open: {', '.join(out)}"
    return bool(tried), f"The sandbox holds: {len(tried)} ways out were tried, none worked ({walls.sentence})"


def _has_key(provider: str) -> bool:
    return bool(load({}, os.environ).environment.get(login.key_variable(provider)))


def _needs_key(provider: str) -> bool:
    from hames.providers.chat.servers import SERVERS

    server = next((server for server in SERVERS if server.name == provider), None)
    return server is None or server.needs_key


def _ask(question: str) -> str:
    try:
        return input(question).strip()
    except EOFError:
        raise InvalidCommand("the input ended before setup did") from None
