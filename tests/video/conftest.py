"""Logs of videos under test: kept, not printed, and free of faults that no test asked for."""

from duplex_trio.testing.kept_logs import faults_expected, logs

__all__ = ["faults_expected", "logs"]
