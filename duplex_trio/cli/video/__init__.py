"""The `video` command: a clip that prompts steer while it is generated, written to a file.

`times` reads what is asked for when, `steering` decides what is sent when, `result` is the record of it all, `view`
shows; all of these are pure but for the terminal. `file` holds the clip, `recording` fills it, `run` carries both.
"""
