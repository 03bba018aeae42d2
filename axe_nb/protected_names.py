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
    ".local": "the user's own programs are here",
    **dict.fromkeys(
        (
            ".vscode", ".idea", ".devcontainer", ".zed", ".helix", ".fleet", ".theia", ".vs",
            ".nova", ".run", ".vim",
        ),
        "editors run what is set here",
    ),
    **dict.fromkeys(
        (
            ".claude", ".cursor", ".windsurf", ".gemini", ".codex", ".roo", ".kiro", ".amazonq",
            ".continue", ".opencode", ".clinerules",
        ),
        "agents run what is set here",
    ),
    **dict.fromkeys(
        (
            ".github", ".ci", ".circleci", ".husky", ".githooks", ".gitea", ".forgejo",
            ".buildkite", ".gitlab", ".semaphore", ".tekton", ".builds", ".teamcity",
            ".azure-pipelines", ".azuredevops", ".binder",
        ),
        "automation runs what is set here",
    ),
    **dict.fromkeys((".cargo", ".mvn", ".bundle"), "build tools run programs that are set here"),
    ".julia": "Julia runs code in it when it starts",
}  # fmt: skip
"""Name of a protected file or folder, at any depth → the reason."""

SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion",
    ".bashrc.d", ".profile", ".zshrc", ".zshrc.local", ".zshenv", ".zprofile", ".zlogin",
    ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".xonshrc", ".login", ".logout",
    ".inputrc", ".direnvrc", ".pam_environment", ".xinitrc", ".xprofile", ".xsession",
    ".xsessionrc", ".xresources", ".xdefaults", ".xbindkeysrc", "profile.ps1",
    "microsoft.powershell_profile.ps1",
)  # fmt: skip
"""Start-up files of shells and of the screens that they run on."""

FILES = {
    **dict.fromkeys(SHELL_FILES, "shells run it when they start"),
    **dict.fromkeys((".gitconfig", ".gitmodules"), "git runs programs that are set here"),
    ".hgrc": "version control runs hooks and programs that are set here",
    "head": "it makes its folder a repository, where git runs what `config` sets",
    **dict.fromkeys(
        (".pre-commit-config.yaml", ".pre-commit-config.yml", ".overcommit.yml"),
        "git hooks run programs that are set here",
    ),
    **dict.fromkeys(
        (
            ".gitlab-ci.yml", ".travis.yml", ".drone.yml", "jenkinsfile", "cloudbuild.yaml",
            "buildspec.yml", "netlify.toml", "vercel.json", ".gitpod.yml", ".replit",
            "devfile.yaml", "postbuild",
        ),
        "automation runs what is set here",
    ),
    ".devcontainer.json": "editors run what is set here",
    **dict.fromkeys((".yarnrc", ".yarnrc.yml"), "yarn runs the program that is set here"),
    **dict.fromkeys(
        (
            ".pnp.js", ".pnp.cjs", ".pnp.loader.mjs", "pnpmfile.js", ".pnpmfile.cjs",
            ".pnpmfile.mjs", "bunfig.toml",
        ),
        "package managers run it, or programs that are set here",
    ),
    **dict.fromkeys(
        (
            ".pylintrc", "pylintrc", ".rspec", ".bazelrc", ".sbtopts", ".jvmopts", "ansible.cfg",
            ".pdm-python", ".tool-versions",
        ),
        "build tools run programs that are set here",
    ),
    **dict.fromkeys(
        (
            ".pdbrc", ".pdbrc.py", ".gdbinit", ".gdbearlyinit", ".lldbinit", ".perldb", ".jdbrc",
            ".exrc", ".vimrc", "_vimrc", ".gvimrc", "_gvimrc", ".lvimrc", ".ideavimrc", ".nvimrc",
            ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el", ".spacemacs", ".kakrc", ".rprofile",
            ".rdata", ".renviron", ".octaverc", "startup.m", ".irbrc", ".pryrc", ".ghci",
            ".iex.exs", ".erlang", ".ocamlinit", ".sbclrc", ".guile", ".pythonrc", ".pythonrc.py",
        ),
        "debuggers, editors and interpreters run it when they start here",
    ),
    **dict.fromkeys(
        (
            ".tmux.conf", ".screenrc", ".psqlrc", ".sqliterc", ".mongorc.js", ".mongoshrc.js",
            ".lessfilter", ".curlrc", ".wgetrc", ".mailcap", ".forward", ".procmailrc", ".muttrc",
        ),
        "terminal programs read it when they start, and can run what it sets",
    ),
    **dict.fromkeys((".htaccess", ".user.ini"), "web servers run what is set here"),
    **dict.fromkeys(
        ("agents.md", "claude.md", "claude.local.md", "gemini.md", ".cursorrules",
         ".windsurfrules"),
        "agents treat it as instructions from the user",
    ),
    **dict.fromkeys(
        (".mcp.json", "opencode.json", "opencode.jsonc", ".aider.conf.yml"),
        "agents start the programs that are set here",
    ),
    "conftest.py": "pytest runs it",
}  # fmt: skip
"""Name of a protected file, at any depth → the reason."""

PATTERNS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"\.?lefthook(-local)?\.(ya?ml|toml|jsonc?)", "git hooks run programs that are set here"),
        (r"\.lintstagedrc(\.\w+)?|lint-staged\.config\.\w+", "git hooks run what is set here"),
        (r"(azure|bitbucket)-pipelines(\.[\w-]+)?\.ya?ml", "automation runs what is set here"),
        (r"\.?appveyor\.ya?ml|\.cirrus\.(ya?ml|star)", "automation runs what is set here"),
        (r"\.woodpecker(\.\w+)?|\.readthedocs\.ya?ml", "automation runs what is set here"),
        (r".*\.(code-workspace|sublime-project)", "editors run what is set here"),
        (r"\.?mise(\.[\w-]+)*\.toml|\.?mise", "mise runs what is set here"),
        (r"\.emacs(\.\w+)?", "editors run it when they start"),
    )
)
"""(names of protected files and folders, at any depth, the reason)."""

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
    "_distutils_system_mod", "_manylinux", "_pydevd_bundle_ext", "annotationlib", "argcomplete",
    "astroid", "atomicwrites", "attr", "backports", "cchardet", "click", "colorama", "ctags",
    "django", "docrepr", "exceptiongroup", "gi", "html5lib", "interegular", "java", "linkify_it",
    "lxml", "matplotlib", "msgpack", "msgspec", "notebook", "numpy", "org", "pandas", "pickleshare",
    "pyls", "pylsp", "python_socks", "pytz", "qtconsole", "rfc3986_validator", "rfc3987",
    "rfc3987_syntax", "rich", "snappy", "socks", "storemagic", "thread", "tomli",
    "typing_extensions", "wsaccel", "yaml",
}  # fmt: skip
"""Modules that common libraries import if they exist; not installed, they are easy to replace.

A folder of that name is then a package, also without `__init__.py`.
"""

LANGUAGE_PACK = "jupyterlab_language_pack_"
"""Beginning of the module that JupyterLab imports for the language of its user."""


def is_optional(name: str) -> bool:
    """True for a module that common programs import if it exists."""
    folded = name.casefold()
    return folded in OPTIONAL or folded.startswith(LANGUAGE_PACK)


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
