"""What the engine costs and how quickly it acts, measured with a scripted model.

`run` starts an engine and takes all measurements in turn, `report` is what they come to, `table` shows it to
people. The model runtimes are scripted, so the figures are those of sessions, threads and events alone. `wire` puts
the two WebSocket paths of the server side by side.
"""

from duplex_trio.benchmarks.report import EngineReport
from duplex_trio.benchmarks.run import bench_engine, bench_wire
from duplex_trio.benchmarks.settings import QUICK, EngineBenchSettings
from duplex_trio.benchmarks.wire import WireReport

__all__ = ["QUICK", "EngineBenchSettings", "EngineReport", "WireReport", "bench_engine", "bench_wire"]
