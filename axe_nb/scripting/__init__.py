"""Script models: Python functions and rule files, in process or served over loopback.

- `rules` finds a script by name: a function registered with `@script`, or a TOML rule file.
- `provider` is the `script` provider, which answers in this process.
- `server` answers over loopback, in the four protocols of `wire`.
"""
