"""Script models: Python functions and files of rules, in process or served over loopback.

- `rules` finds a script by its name: a function that `@script` registered, or a TOML file of rules,
  which answer a request.
- `provider` is the provider `script`, which answers in process.
- `server` answers over loopback, in the four protocols of `wire`.
"""
