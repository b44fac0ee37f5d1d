"""A stage in a process of its own: `run` is the server's side, `child` and `worker_side` are the process's.

`frames` is what travels between them. The worker is stepped by the same lanes as in a thread (`stages.lanes`), and
its requests are kept by the same streams (`stages.streams`).
"""
