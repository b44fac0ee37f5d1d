"""The `talk` command: a spoken conversation with a server, from recordings or a microphone.

`scenario` decides what the user says when, `timeline` accounts for what the server says, `latency` measures,
`view`, `picture` and `recording` show; all of these are pure. `run` carries the conversation, `microphone`
the sound device.
"""
