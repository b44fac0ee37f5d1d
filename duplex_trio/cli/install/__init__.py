"""`duplex-trio install`: set up the speech engine in the current Python environment.

`requirements` and `environment` say what is wanted and what is there, `plan` decides, `execute` does,
`report` shows, `selfcheck` proves; `command` ties them to the command line.
"""
