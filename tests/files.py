"""Files that a test writes, with the folders above them."""

from pathlib import Path

from axe_nb.agents.user_config import config_path


def put(path: str | Path, content: str | bytes = "x") -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def settings(text: str) -> Path:
    """Writes the user's config.toml."""
    return put(config_path(), text)
