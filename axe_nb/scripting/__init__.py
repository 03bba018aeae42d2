"""Script models: Python functions and files of rules, in process or served over loopback.

- `rules` finds a script by name: a function registered with `@script`, or a TOML file of rules.
- `provider` is the provider `script`, which answers in this process.
- `server` answers over loopback, in the four protocols of `wire`.
"""
