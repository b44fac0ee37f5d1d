"""One session.

Its state (`state`), the tasks that carry it (`run`), and the handle the outside holds (`handle`).
"""
