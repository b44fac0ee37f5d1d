"""One session: its state (`state`), the tasks that carry it (`run`), and the handle the outside holds (`handle`)."""
