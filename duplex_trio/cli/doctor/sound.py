"""Whether there is a microphone and a loudspeaker to talk with."""

from __future__ import annotations

from collections.abc import Iterator

from duplex_trio.cli.doctor.finding import Finding
from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.talk.microphone import load_sounddevice


def check_sound() -> Iterator[Finding]:
    """The devices that `talk --mic` would take. To be asked where its extra is installed."""
    try:
        library = load_sounddevice()
    except CommandError as error:
        yield Finding(
            "Sound", "note", str(error), "a browser's microphone works without: the page of `serve`"
        )
        return
    for kind, what in (("input", "Microphone"), ("output", "Loudspeaker")):
        device = library.query_devices(kind=kind)
        yield Finding(what, "ok", f"{device['name']}, {device['default_samplerate']:.0f} Hz")
