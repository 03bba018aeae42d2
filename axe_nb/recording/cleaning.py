"""Texts as they are kept: without secrets, and without paths of the machine.

Source: D-60.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axe_nb.conversion.jsonable import change_texts
from axe_nb.secrets import Filter, find_filter

FOLDER, HOME = "⟨folder⟩", "⟨home⟩"
"""Marks that replace the paths of the notebook's folder and the user's home."""

SHORTEST = 4
"""Characters of a folder's path; `/` and its like are on every machine."""


@dataclass(frozen=True, slots=True)
class Cleaner(Filter):
    """Removes secrets, and paths below a folder and the user's home."""

    paths: re.Pattern[str] = field(kw_only=True)
    names: Mapping[str, str] = field(kw_only=True)
    """Path of a folder → the mark that replaces it."""

    def text(self, text: str) -> str:
        """Returns a text as it is kept."""
        if any(path in text for path in self.names):
            text = self.paths.sub(lambda match: self.names[match[0]], text)
        return Filter.text(self, text)

    def restore(self, value: Any) -> Any:
        """Returns JSON data with the paths of this machine back in their places."""

        def put_back(text: str) -> str:
            for path, name in self.names.items():
                text = text.replace(name, path)
            return text

        return change_texts(value, put_back, also_keys=True)

    def clean_again(self, value: Any) -> Any:
        """Returns JSON data, cleaned before, without the secrets that have come since."""
        now = find_filter()
        return value if now.forms == self.forms else now.json(value)


def make_cleaner(folders: Mapping[Path, str]) -> Cleaner:
    """Returns a filter for the secrets of this moment.

    Args:
        folders: folder → what takes the place of its path.
    """
    names = {f"{path}": name for path, name in folders.items()}
    with suppress(RuntimeError):  # there may be no home
        names = {f"{Path.home()}": HOME, **names}
    names = {path: name for path, name in names.items() if len(path) >= SHORTEST}
    paths = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
    found = re.compile(rf"(?:(?<![\w.-])|(?<=\\[nrtbf]))(?:{paths})(?![\w.-])")
    return Cleaner(find_filter().forms, paths=found, names=names)
