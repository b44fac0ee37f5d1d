"""Compute behind one narrow interface.

`port` holds the seam that the rest of the package sees (requests, units, outputs, the `Stage` and
`StageStream` ABCs), `worker` the blocking half that a model runtime implements, `run` the thread that joins
the two and `process` the process that does, `units` the values that travel, and `vllm` / `silero` the runtimes
that belong to no single model.
"""
