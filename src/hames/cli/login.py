"""Save the API key of a model provider, after a test call to it.

  hames login                          list the providers and whether each has a key (also: hames login status)
  hames login anthropic                asks for the key without showing it
  echo "$KEY" | hames login openai     reads the key from stdin
  hames login openai --remove          delete the saved key

The key is saved in the operating system's keyring if there is one (pip install 'hames[keyring]'), otherwise in a file
that only you can read. A key in the environment, such as ANTHROPIC_API_KEY, takes precedence over a saved one.
Exit code: 0, 1 if the provider refuses the key or cannot be reached, 2 for a bad option.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from getpass import getpass
from typing import TYPE_CHECKING

import anyio

from hames.cli.paint import Paint
from hames.cli.wrapping import columns, fold
from hames.config.credentials import Credentials
from hames.domain.display import printable, visible
from hames.domain.errors import HarnessError, InvalidCommand

if TYPE_CHECKING:
    from hames.providers.catalogue import Catalogue

TEST_SECONDS = 30.0
LIST_WORDS = ("status", "list")
"""Words that other tools use for the list."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("provider", nargs="?", metavar="PROVIDER", help="such as anthropic, openai or openrouter")
    parser.add_argument("--remove", action="store_true", help="delete the saved key")
    parser.add_argument("--no-test", action="store_true", help="save the key without a test call")
    parser.add_argument("--file", action="store_true", help="save it in a file even if there is a keyring")


def run(args: Namespace) -> int:
    credentials = Credentials.of_user(os.environ)
    if args.provider in (None, *LIST_WORDS):
        _list(credentials)
        return 0
    variable = key_variable(args.provider)
    if args.remove:
        found = credentials.remove(variable)
        print(f"The key of {args.provider} was removed." if found else f"There was no saved key of {args.provider}.")
        return 0
    key = read_key(args.provider)
    if not args.no_test and (problem := anyio.run(try_key, args.provider, key)):
        print(f"hames: the key was not saved: {printable(problem)}", file=sys.stderr)
        return 1
    where = credentials.save(variable, key, use_keyring=not args.file)
    print(f"Saved in {where}.")
    if os.environ.get(variable):
        print(f"{variable} is set in this environment and is used instead of the saved key.")
    return 0


def providers() -> dict[str, str]:
    """Providers that take a key, with the variable that holds it: those built in, and those of config.toml."""
    from hames.config.load import load
    from hames.config.providers import KEYS, variable

    return {name: variable(name, "api_key") for name in (*KEYS, *load({}, os.environ, problems=[]).own_providers)}


def key_variable(provider: str) -> str:
    known = providers()
    if provider not in known:
        raise InvalidCommand(
            f"unknown provider {provider!r}; the providers are: {', '.join(known)}."
            " For another server run: hames setup --base-url ADDRESS"
        )
    return known[provider]


def read_key(provider: str, *, optional: bool = False) -> str:
    """Typed without an echo, or a line of stdin where that is no terminal. Empty only where it is `optional`."""
    if sys.stdin.isatty():
        key = getpass(f"API key of {provider} (not shown{'; Enter for none' if optional else ''}): ").strip()
    else:
        key = sys.stdin.readline().strip()
    if not key and not optional:
        raise InvalidCommand("no key was given")
    if not key.isprintable() or not key.isascii() or " " in key:
        raise InvalidCommand("that is not an API key: it has spaces or characters that keys do not have")
    return key


async def try_key(provider: str, key: str, address: str = "") -> str:
    """Asks the provider for its models. What is wrong, or nothing. `address`: another one than is configured."""
    from hames.app import catalogue
    from hames.config.load import load
    from hames.config.providers import variable
    from hames.providers.failures import key_advice

    name = key_variable(provider)
    other = {variable(provider, "base_url"): address} if address else {}
    models = catalogue(load({}, {**os.environ, name: key, **other}))
    problem = (await ask_for_models(models, provider))[1]
    # Whoever has just given a key needs no advice on how to give one.
    return problem.replace(f"; {key_advice(provider, name)}", "")


async def ask_for_models(models: "Catalogue", provider: str) -> tuple[int, str]:
    """How many models the provider lists, and what is wrong, if anything. Closes the catalogue."""
    try:
        with anyio.fail_after(TEST_SECONDS):
            return await models.refresh(provider), ""
    except HarnessError as problem:
        return 0, str(problem)
    except TimeoutError:
        return 0, f"{provider} did not answer within {TEST_SECONDS:g} s"
    finally:
        await models.aclose()


def needs_key(provider: str) -> bool:
    """A server of one's own may want a key, and usually does not."""
    from hames.providers.chat.servers import SERVERS

    return provider in ("anthropic", "openai") or any(one.needs_key for one in SERVERS if one.name == provider)


def _list(credentials: Credentials) -> None:
    paint = Paint.for_stream(sys.stdout)
    saved = credentials.saved()
    for provider, variable in providers().items():
        if os.environ.get(variable):
            says, good = f"{variable} is set in the environment", True
        elif variable in saved:
            says = "saved in the keyring" if saved[variable].where == "keyring" else f"saved in {credentials.file}"
            good = True
        else:
            says, good = "no key" if needs_key(provider) else "needs no key, unless your server asks for one", False
        mark = paint.good("✓") if good else paint.dim("–")
        print(f"{mark} {paint.bold(f'{provider:<12}')} {fold(visible(says), columns(sys.stdout), indent=15)}")
