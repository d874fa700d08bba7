"""Choose a model provider, save its key, test it, and check the sandbox. Run this once after installing.

  hames setup                                      asks for everything it needs
  hames setup --provider anthropic < key.txt       no questions; the key comes from stdin
  hames setup --provider ollama --model qwen3      a local server needs no key
  hames setup --base-url http://127.0.0.1:8080/v1  any server that speaks the OpenAI chat API

The key is saved where `hames login` saves it, the model and the address of a server in your configuration file. Shell
completion is installed only if you agree.
Exit code: 0 if hames is ready, 1 if the key was refused or the sandbox does not work, 2 for a bad option.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import anyio

from hames.cli import login
from hames.cli.paint import Paint
from hames.cli.wrapping import columns, fold, say
from hames.config.credentials import Credentials
from hames.config.edit_file import set_in_table, set_value
from hames.config.load import load
from hames.config.paths import user_config, user_state
from hames.config.providers import address_problem, usual_address, variable
from hames.config.sandbox_proof import note_proof
from hames.domain.display import printable, visible
from hames.domain.errors import HarnessError, InvalidCommand
from hames.domain.policy import WorkspaceWrite

OFFERED = {
    "anthropic": "Claude, with an API key",
    "openai": "GPT, with an API key",
    "openrouter": "many models, with one API key",
    "ollama": "models on this machine, no key",
    "local": "another server on this machine, such as llama.cpp on port 8080, no key",
    "compatible": "any other server that speaks the OpenAI chat API; you give its address",
}
SERVICES = ("anthropic", "openai")
EXAMPLE = "http://127.0.0.1:8080/v1"
COMPLETIONS = {
    "bash": ".local/share/bash-completion/completions/hames",
    "zsh": ".zfunc/_hames",
    "fish": ".config/fish/completions/hames.fish",
}
SHOWN_MODELS = 8


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--provider", metavar="PROVIDER", help="such as anthropic, openai or ollama")
    parser.add_argument("--base-url", metavar="ADDRESS", help=f"the address of the model server, such as {EXAMPLE}")
    parser.add_argument("-m", "--model", metavar="MODEL", help="the model that new threads use")
    parser.add_argument("--no-test", action="store_true", help="save the key without a test call")
    parser.add_argument("--no-sandbox-check", action="store_true", help="do not test the sandbox")


def run(args: Namespace) -> int:
    if args.base_url and (problem := address_problem(args.base_url)):
        raise InvalidCommand(f"--base-url: {problem}")
    if args.base_url and args.provider is None:
        args.provider = "compatible"
    if args.provider is not None:
        login.key_variable(args.provider)
    elif not sys.stdin.isatty():
        raise InvalidCommand("there is no terminal to ask on; name a provider: hames setup --provider anthropic")
    return _Setup(args).run()


class _Setup:
    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._paint = Paint.for_stream(sys.stdout)
        self._asks = args.provider is None
        self._typed_address = ""
        self._address_used = ""

    def run(self) -> int:
        provider = self._args.provider or self._chosen_provider()
        if provider and not (self._access(provider) and self._model(provider)):
            return 1
        held = self._sandbox()
        if self._asks:
            self._completion()
        if not provider:
            say("\nNo provider was chosen. `hames demo` works without one; run `hames setup` again to choose one.")
        else:
            print(f"\n{self._paint.bold('Ready.')}", end=" ")
            say('Start `hames` in a project, or try: hames run "What is this project?"')
        return 0 if held else 1

    def _chosen_provider(self) -> str:
        print(self._paint.bold("Which model provider do you want to use?"))
        names = list(OFFERED)
        width = columns(sys.stdout)
        for number, name in enumerate(names, 1):
            has_key = self._paint.good("  (has a key)") if _has_key(name) else ""
            print(f"  {number}  {name:<12} {fold(OFFERED[name], width, indent=18)}{has_key}")
        print(f"  {len(names) + 1}  none for now")
        others = ", ".join(name for name in login.providers() if name not in OFFERED)
        say(f"Or type another name ({others}), or the address of a server.")
        preferred = next((at for at, name in enumerate(names, 1) if _has_key(name)), 1)
        while True:
            answer = _ask(f"Number or name [{preferred}]:") or str(preferred)
            if answer == str(len(names) + 1):
                return ""
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            if answer.lower() in login.providers():
                return answer.lower()
            if "://" in answer:
                if not (problem := address_problem(answer)):
                    self._typed_address = answer
                    return "compatible"
                say(visible(problem))
            else:
                say(f"{visible(answer)!r} is not one of them.")

    def _access(self, provider: str) -> bool:
        """Whether the provider can be used. Asks for what is missing: its address, its key."""
        address = self._address(provider)
        while True:
            key = self._environment().get(login.key_variable(provider), "")
            asked = not key and (login.needs_key(provider) or not usual_address(provider))
            if asked:
                key = login.read_key(provider, optional=not login.needs_key(provider))
            if self._tested(provider, key, address):
                break
            again = "another address or key" if asked else "another address"
            if key and not asked:
                self._say_where_the_key_is(provider)
            if not self._asks or (not asked and login.needs_key(provider)):
                return False
            if login.needs_key(provider):
                continue  # The key is asked for again. A question in between would show a key that is pasted into it.
            if _ask(f"Try {again}? [Y/n]").lower().startswith("n"):
                return False
            address = self._ask_address(address)
        self._save(provider, address, key if asked else "")
        return True

    def _address(self, provider: str) -> str:
        """The address to use and to save. Empty: the provider's usual one, or the one that is in the file already."""
        if chosen := self._args.base_url or self._typed_address:
            return chosen
        name = variable(provider, "base_url")
        configured = self._environment().get(name, "").strip()
        if configured:
            if (problem := address_problem(configured)) and name in os.environ:
                raise InvalidCommand(f"{name} in the environment: {problem}")
            return configured if name in os.environ and provider not in SERVICES else ""
        if usual_address(provider):
            return ""
        if not sys.stdin.isatty():
            raise InvalidCommand(
                f"the address of the server is missing: hames setup --provider {provider} --base-url {EXAMPLE}"
            )
        return self._ask_address("")

    def _ask_address(self, before: str) -> str:
        say(f"The address of the server ends before /chat/completions. An example: {EXAMPLE}")
        while True:
            answer = _ask(f"Address [{before}]:" if before else "Address:") or before
            if not (problem := address_problem(answer)):
                return answer
            say(visible(problem))

    def _save(self, provider: str, address: str, key: str) -> None:
        if address:
            file = Path(user_config(os.environ))
            set_in_table(file, f"providers.{provider}", "base_url", address)
            self._good(f"The address is saved in {file}")
            self._warn_of_variable(variable(provider, "base_url"), "address", address)
            self._address_used = address
        elif os.environ.get(variable(provider, "base_url")):
            say(f"  The address comes from {variable(provider, 'base_url')}; set it in every shell that runs hames.")
        name = login.key_variable(provider)
        if key:
            self._good(f"The key is saved in {Credentials.of_user(os.environ).save(name, key)}")
        elif os.environ.get(name) and name not in Credentials.of_user(os.environ).values():
            say(f"  The key comes from {name}; set it in every shell that runs hames, or run `hames login {provider}`.")

    def _say_where_the_key_is(self, provider: str) -> None:
        name = login.key_variable(provider)
        if os.environ.get(name):
            say(f"  The key comes from {name} in the environment.")
        elif name in Credentials.of_user(os.environ).values():
            say(f"  The key was saved before; `hames login {provider}` saves another one.")
        else:
            say("  The key comes from a configuration file; `hames config` names it.")

    def _warn_of_variable(self, name: str, what: str, saved: str) -> None:
        if os.environ.get(name, saved) != saved:
            say(f"  {name} is set in this shell and is used instead of the saved {what}.")

    def _environment(self) -> dict[str, str]:
        return load({}, os.environ).environment

    def _tested(self, provider: str, key: str, address: str) -> bool:
        if self._args.no_test:
            return True
        problem = anyio.run(login.try_key, provider, key, address)
        if problem:
            self._bad(printable(problem))
            return False
        self._good(f"{provider} answers")
        return True

    def _model(self, provider: str) -> bool:
        """Writes the model of new threads into the user's configuration."""
        from hames.app import catalogue

        # The address that was just saved counts here, even where a variable names another one.
        name = variable(provider, "base_url")
        used = {name: self._address_used} if self._address_used else {}
        models = catalogue(load({}, {**os.environ, **used}))
        offered = [card for card in models.cards() if card.provider == provider and not card.successor]
        usual = models.find(models.default)
        default = usual.id if usual.provider == provider else offered[0].id if offered else ""
        wanted = self._args.model or (
            self._chosen_model([card.id for card in offered], default) if self._asks else default
        )
        if not wanted:
            self._bad(f"{provider} lists no models: name one with hames setup --provider {provider} --model MODEL")
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
        shown = offered[:SHOWN_MODELS]
        for number, name in enumerate(shown, 1):
            print(f"  {number}  {name}")
        if len(offered) > SHOWN_MODELS:
            print(f"  and {len(offered) - SHOWN_MODELS} more: hames models")
        answer = _ask(f"Model [{default}]:" if default else "Model:") or default
        return shown[int(answer) - 1] if answer.isdecimal() and 1 <= int(answer) <= len(shown) else answer

    def _sandbox(self) -> bool:
        if self._args.no_sandbox_check:
            return True
        print("\nTrying to break out of the sandbox on this machine …", flush=True)
        good, says = anyio.run(_proved)
        note_proof(Path(user_state(os.environ)), holds=good)
        (self._good if good else self._bad)(says)
        return good

    def _completion(self) -> None:
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in COMPLETIONS:
            return
        file = Path.home() / COMPLETIONS[shell]
        if file.exists() or not _ask(f"\nInstall completion for {shell} into {file}? [y/N]").lower().startswith("y"):
            return
        from hames.cli.completion import completion_script

        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(completion_script(shell) + "\n")
        self._good(f"Completion works in the next {shell} you open")

    def _good(self, sentence: str) -> None:
        print(f"{self._paint.good('✓')} {fold(visible(sentence), columns(sys.stdout), indent=2)}", flush=True)

    def _bad(self, sentence: str) -> None:
        print(f"{self._paint.bad('✗')} {fold(visible(sentence), columns(sys.stdout), indent=2)}", flush=True)


async def _proved() -> tuple[bool, str]:
    from hames.cli.doctor import try_escapes
    from hames.sandbox.local import LocalSandbox

    walls = await LocalSandbox().walls()
    if walls.kind == "none":
        return False, walls.sentence
    holds, says = await try_escapes(WorkspaceWrite())
    return holds, f"The sandbox {'works' if holds else 'does not work'}: {says} ({walls.sentence})"


def _has_key(provider: str) -> bool:
    return bool(load({}, os.environ).environment.get(login.key_variable(provider)))


def _ask(question: str) -> str:
    *before, last = fold(question, columns(sys.stdout)).split("\n")
    for line in before:
        print(line)
    try:
        return input(f"{last} ").strip()
    except EOFError:
        raise InvalidCommand("the input ended before setup was finished") from None
