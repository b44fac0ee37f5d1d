"""Keep what a thread computes with torch in that thread.

`torch.set_num_threads` also tells every thread that has not asked torch for anything yet, and with it other models of
the process, such as a language model whose engine starts later. How many threads share a computation is in truth a
setting that OpenMP keeps for each thread that begins one, so only that is changed here.
"""

from __future__ import annotations

import ctypes


def compute_in_one_thread() -> None:
    """Make the calling thread do all of its own torch computations; other threads keep their number.

    Where this torch was built without OpenMP the number is left as it is.
    """
    import torch

    # torch applies its own number when a thread first asks for it, which would undo what follows.
    torch.get_num_threads()
    set_threads = getattr(ctypes.CDLL(None), "omp_set_num_threads", None)
    if set_threads is not None:
        set_threads(1)
