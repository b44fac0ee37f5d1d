"""What serving a video costs beside making it, and how soon a new prompt is seen.

`alone` runs a model in threads of this process, without and with its encoder; `watching` watches the same videos of
a server in a process of its own, over the socket; `run` lets the two take turns, so that what else the machine does
meets both alike. `report` is what they come to, `table` shows it to people.
"""

from duplex_trio.benchmarks.video.report import VideoReport
from duplex_trio.benchmarks.video.run import bench_video
from duplex_trio.benchmarks.video.settings import QUICK_VIDEO, VideoBenchSettings

__all__ = ["QUICK_VIDEO", "VideoBenchSettings", "VideoReport", "bench_video"]
