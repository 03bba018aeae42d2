"""The built-in models: functions and files of rules, in process or served over loopback."""
