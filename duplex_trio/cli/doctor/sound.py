"""Whether there is a microphone and a loudspeaker to talk with."""

from __future__ import annotations

from collections.abc import Iterator

from duplex_trio.cli.doctor.finding import Finding
from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.talk.devices import find_devices


def check_sound() -> Iterator[Finding]:
    """The devices that `talk --mic` would take. To be asked where its extra is installed."""
    try:
        devices = find_devices()
    except CommandError as error:
        yield Finding(
            "Sound", "note", str(error), "a browser's microphone works without: the page of `serve`"
        )
        return
    yield Finding("Microphone", "ok", f"{devices.source.name}, {devices.source.rate_hz} Hz")
    yield Finding("Loudspeaker", "ok", f"{devices.sink.name}, {devices.sink.rate_hz} Hz")
