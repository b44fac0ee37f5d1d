"""Several replicas of one stage that are made anew when they break."""

from duplex_trio.stages.pool.backoff import RestartPolicy
from duplex_trio.stages.pool.run import StagePool

__all__ = ["RestartPolicy", "StagePool"]
