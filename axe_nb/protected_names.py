"""The names of protected files: what other programs run or obey, and what holds keys.

Source: D-83; docs/safety.md "File rules".
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
    **dict.fromkeys((".vscode", ".idea"), "editors run what is set here"),
    **dict.fromkeys((".github", ".ci"), "automation runs what is set here"),
}
"""Name of a protected file or folder, at any depth → the reason."""

SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion",
    ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc",
    ".cshrc", ".tcshrc", ".login", ".logout", ".xonshrc", ".inputrc", "profile.ps1",
    "microsoft.powershell_profile.ps1",
)  # fmt: skip
"""Start-up files of shells."""

FILES = {
    **dict.fromkeys(SHELL_FILES, "shells run it when they start"),
    "conftest.py": "pytest runs it",
}
"""Name of a protected file, at any depth → the reason."""

AT_START = frozenset({"sitecustomize", "usercustomize"})
"""Modules and packages that Python imports when it starts."""

AUTOMATIC = "Python runs it when it starts"

KEYS = "it may hold keys or passwords"

KEY_FILES = {
    ".ssh", ".aws", ".azure", ".gnupg", ".kube", ".password-store", ".netrc", "_netrc", ".pypirc",
    ".npmrc", ".git-credentials", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf",
    ".vault-token", ".vault_pass", ".boto", ".s3cfg", ".dockercfg", ".mozilla", ".thunderbird",
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "kaggle.json",
    "pip.conf", "pip.ini", ".condarc", ".databrickscfg", ".terraformrc", "rclone.conf", ".wandb",
    ".oci", ".fly", ".snowflake", ".modal.toml", ".cdsapirc", ".ecmwfapirc", ".openai",
    ".anthropic", ".claude.json", ".htpasswd", "application_default_credentials.json",
    ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history",
    ".mysql_history", ".sqlite_history", "history.sqlite",
}  # fmt: skip
"""Names of files and folders, at any depth, that hold keys, or what was typed at a prompt."""

KEY_ENDS = re.compile(r".*\.(key|p12|pfx|ppk|kdbx|jks|keystore)|(.*[^a-z])?(priv)?key\.pem")
"""Names of files of private keys; other `*.pem` are mostly certificates, which are public."""

KEY_PATHS = tuple(
    tuple(path.split("/"))
    for path in (
        ".config/axe/config.toml", ".config/gcloud", ".config/gh", ".config/hub", ".config/op",
        ".config/glab-cli", ".config/git/credentials", ".config/containers/auth.json",
        ".config/google-chrome", ".config/chromium", ".config/bravesoftware", ".config/huggingface",
        ".config/rclone", ".config/github-copilot", ".config/openai", ".config/sops",
        ".config/earthengine", ".config/wandb", ".config/kaggle", ".config/pip", ".config/doctl",
        ".config/netlify", ".config/stripe", ".config/ngrok", ".cache/huggingface/token",
        ".cache/huggingface/stored_tokens", ".huggingface/token", ".streamlit/secrets.toml",
        ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json",
        ".local/share/opencode/auth.json", ".docker/config.json", ".cargo/credentials",
        ".cargo/credentials.toml", ".gem/credentials", ".composer/auth.json",
        ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
        ".dbt/profiles.yml", ".subversion/auth", ".openml/config", ".pip/pip.conf",
        ".terraform.d/credentials.tfrc.json", ".jupyter/jupyter_server_config.json",
        ".jupyter/jupyter_server_config.py", ".jupyter/jupyter_notebook_config.json",
        ".jupyter/jupyter_notebook_config.py", ".local/share/jupyter/runtime",
        ".local/share/keyrings", ".local/share/kwalletd", "library/keychains", "library/cookies",
        "library/application support/google/chrome", "library/application support/firefox",
        "appdata/roaming/mozilla", "appdata/roaming/microsoft/credentials",
        "appdata/local/microsoft/credentials", "appdata/local/google/chrome",
    )
)  # fmt: skip
"""Paths of files and folders that hold keys, as folded names; below any folder."""

NEEDED_KEYS = {
    ".yarnrc", ".yarnrc.yml", ".renviron", "terraform.tfstate", "terraform.tfstate.backup",
}  # fmt: skip
"""Names of files that may hold keys, but that commands in the folder cannot do without."""

NEEDED_IN = {
    ".git": {"config", "config.worktree"},
    ".hg": {"hgrc"},
    ".bundle": {"config"},
}
"""The same by folder: the folder → names of files at any depth below it."""
