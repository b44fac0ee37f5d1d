"""What any model plugin must keep, as checks that its author runs through pytest.

    @pytest.mark.parametrize("check", conformance_checks(MyPipeline), ids=str)
    async def test_conformance(autojump_clock: MockClock, check: ConformanceCheck) -> None:
        await check.run()

Each check makes a pipeline of its own and holds sessions with it. `suite` lists the checks, `room` is where
they talk, `wrapped`, `heard` and `stuck` make a model fail, keep what it is asked, or not take its input.
"""

from duplex_trio.testing.conformance.suite import ConformanceCheck, conformance_checks

__all__ = ["ConformanceCheck", "conformance_checks"]
