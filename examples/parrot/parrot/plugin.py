"""The parrot in a session: what clients may ask of it."""

from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.plugin import DuplexModelPlugin
from parrot.processor import ParrotProcessor


class ParrotPlugin(ParrotProcessor, DuplexModelPlugin):
    """Answers turns as the processor does, and can be interrupted."""

    plugin_id = "parrot"

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        """It takes sound and nothing else; a lost client may come back to it."""
        return DuplexCapabilities(
            supports_session_resume=True,
            supports_multi_session=max_sessions > 1,
        )


def make_plugin(pipeline: Pipeline) -> ParrotPlugin:
    """It needs nothing of the pipeline."""
    return ParrotPlugin()
