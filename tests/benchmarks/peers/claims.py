"""Tries what the page says of a library: `python claims.py NAME`, in its environment.

Each coroutine of `claims_NAME.py` is a claim. Prints JSON: claim → why it does not hold, if so.
"""

import asyncio
import contextlib
import importlib
import inspect
import json
import sys


def main(name):
    module = importlib.import_module(f"claims_{name}")
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    found = {}
    with contextlib.redirect_stdout(sys.stderr):
        for claim, tried in vars(module).items():
            if inspect.iscoroutinefunction(tried) and tried.__module__ == module.__name__:
                try:
                    loop.run_until_complete(tried())
                except Exception as error:
                    found[claim] = repr(error)[:300]
                else:
                    found[claim] = ""
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
