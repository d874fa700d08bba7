"""Copied as `sitecustomize.py` into the environment of a program that is made for Python 3.14, to run it on 3.13 as it
is: its annotations are evaluated when somebody asks for them, and its pool of interpreters is one of threads.
"""

import __future__

import concurrent.futures
import importlib.machinery
import inspect

PROGRAM = "/toad/"
plain_signature = inspect.signature


def source_to_code(_self, data, path, *, _optimize=-1):
    flags = __future__.annotations.compiler_flag if PROGRAM in str(path) else 0
    return compile(data, path, "exec", flags=flags, dont_inherit=True, optimize=_optimize)


def signature(called, **options):
    try:
        return plain_signature(called, eval_str=True, **options)
    except NameError:
        return plain_signature(called, **options)


importlib.machinery.SourceFileLoader.source_to_code = source_to_code
inspect.signature = signature
concurrent.futures.InterpreterPoolExecutor = concurrent.futures.ThreadPoolExecutor
