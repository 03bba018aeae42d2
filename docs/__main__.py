"""`python3 docs`: builds the site in `build/site`, in an environment of its own.

Any warning, such as a link that leads nowhere, makes it fail. Notebooks are not run: they are
shown as they were saved.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # `python3 docs` puts the folder `docs` there, hence the E402 below

from tests.bootstrap import environment, say  # noqa: E402

SITE = ROOT / "build" / "site"


def main(arguments: list[str]) -> int:
    """The exit code of Sphinx, which the arguments are for."""
    python = environment(".venv-docs", "-e", ".", "--group", "docs")
    command = [str(python), "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", *arguments]
    code = subprocess.call([*command, ".", str(SITE)], cwd=ROOT)
    say(f"the site could not be built (exit code {code})" if code else f"open {SITE}/index.html")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
