"""What the engine costs and how quickly it acts, measured with a scripted model.

`run` starts an engine and takes all measurements in turn, `report` is what they come to, `table` shows it to
people. The model runtimes are scripted, so the figures are those of sessions, threads and events alone.
"""

from duplex_trio.benchmarks.report import EngineReport
from duplex_trio.benchmarks.run import bench_engine
from duplex_trio.benchmarks.settings import QUICK, EngineBenchSettings

__all__ = ["QUICK", "EngineBenchSettings", "EngineReport", "bench_engine"]
