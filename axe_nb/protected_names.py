"""The names of protected files: what other programs run or obey, and what holds keys.

Source: D-52; docs/safety.md "File rules".
"""

from __future__ import annotations

import re

FOLDERS = {
    "axe": "agents, scripts and skills are instructions for later runs",
    **dict.fromkeys(
        (".git", ".hg", ".svn"), "version control runs hooks and programs that are set here"
    ),
    ".ssh": "it controls logins to and from this machine",
    **dict.fromkeys((".ipython", ".jupyter"), "code in it runs when a notebook starts"),
    ".config": "programs read their settings from here",
    ".local": "programs of the user are here",
    **dict.fromkeys((".vscode", ".idea", ".devcontainer"), "editors run what is set here"),
    **dict.fromkeys((".claude", ".cursor"), "agents run what is set here"),
    **dict.fromkeys(
        (".github", ".ci", ".circleci", ".husky", ".githooks", ".gitea", ".forgejo", ".buildkite"),
        "automation runs what is set here",
    ),
}
"""Name of a protected file or folder, at any depth → the reason."""

SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".logout", ".inputrc", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc",
    "profile.ps1", "microsoft.powershell_profile.ps1",
)  # fmt: skip
"""Start-up files of shells."""

FILES = {
    **dict.fromkeys(SHELL_FILES, "shells run it when they start"),
    **dict.fromkeys((".gitconfig", ".gitmodules"), "git runs programs that are set here"),
    "head": "it makes its folder a repository, in which git runs what `config` sets",
    **dict.fromkeys(
        (
            ".gitlab-ci.yml", ".travis.yml", ".drone.yml", ".woodpecker.yml",
            "azure-pipelines.yml", "jenkinsfile",
        ),
        "automation runs what is set here",
    ),
    **dict.fromkeys((".yarnrc", ".yarnrc.yml"), "yarn runs the program that is set here"),
    **dict.fromkeys(
        (".pdbrc", ".gdbinit", ".lldbinit", ".exrc", ".nvimrc", ".nvim.lua", ".rprofile", ".irbrc",
         ".pryrc", ".ghci"),
        "debuggers, editors and interpreters run it when they start here",
    ),
    ".mcp.json": "agents start the servers that are set here",
    "conftest.py": "pytest runs it",
}  # fmt: skip
"""Name of a protected file, at any depth → the reason."""

AT_START = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python imports when it starts."""

CONFIG = re.compile(r"(jupyter|ipython)(_\w+)?_config\.(py|json|d)")
"""A file or folder of settings of Jupyter or IPython, which run it where they are started."""

PLUGINS = (".dist-info", ".egg-info", ".egg-link")
"""Ends of names by which Python finds installed packages and their plugins."""

REPOSITORY = frozenset({"config", "hooks", "commondir"})
"""Names that git obeys beside a file `HEAD`."""

OPTIONAL = {
    "brotli", "brotlicffi", "zstandard", "h2", "socksio", "trio", "curio", "sniffio", "outcome",
    "uvloop", "simplejson", "orjson", "ujson", "chardet", "charset_normalizer",
    "_distutils_system_mod", "_pydevd_bundle_ext", "argcomplete", "astroid", "atomicwrites",
    "click", "colorama", "ctags", "django", "exceptiongroup", "gi", "interegular", "java",
    "matplotlib", "msgpack", "numpy", "org", "pandas", "rfc3987", "rfc3986_validator",
    "rfc3987_syntax", "html5lib", "storemagic", "thread", "tomli", "typing_extensions", "yaml",
}  # fmt: skip
"""Modules that common libraries import if they exist; not installed, they are easy to replace.

A folder of that name is then a package, also without `__init__.py`.
"""

KEYS = "it may hold keys or passwords"

KEY_FILES = {
    ".ssh", ".aws", ".azure", ".gnupg", ".kube", ".password-store", ".netrc", "_netrc", ".pypirc",
    ".npmrc", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", ".boto", ".s3cfg",
    ".dockercfg", ".mozilla", ".thunderbird",
}  # fmt: skip
"""Names of files and folders, at any depth, that hold keys."""

KEY_PATHS = tuple(
    tuple(path.split("/"))
    for path in (
        ".config/axe/config.toml", ".config/gcloud", ".config/gh", ".config/hub", ".config/op",
        ".config/glab-cli", ".config/git/credentials", ".config/containers/auth.json",
        ".config/google-chrome", ".config/chromium", ".config/bravesoftware", ".config/huggingface",
        ".cache/huggingface/token", ".huggingface/token", ".docker/config.json",
        ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
        ".terraform.d/credentials.tfrc.json", ".jupyter/jupyter_server_config.json",
        ".local/share/jupyter/runtime", ".local/share/keyrings", ".local/share/kwalletd",
        "library/keychains", "library/cookies", "library/application support/google/chrome",
        "library/application support/firefox", "appdata/roaming/mozilla",
        "appdata/roaming/microsoft/credentials", "appdata/local/microsoft/credentials",
        "appdata/local/google/chrome",
    )
)  # fmt: skip
"""Paths of files and folders that hold keys, as folded names; below any folder."""
