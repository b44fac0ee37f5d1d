"""The sound devices of this machine, through the optional `sounddevice` library.

A device is opened at the rate that we want, where its driver takes that, and at its own one otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Literal

from attrs import field, frozen

from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.talk.loudspeaker import Loudspeaker
from duplex_trio.cli.talk.microphone import LiveMicrophone
from duplex_trio.cli.talk.recording import RECORDING_HZ
from duplex_trio.cli.talk.scenario import FRAME_MS, MICROPHONE_HZ

Kind = Literal["input", "output"]
MIC_EXTRA = "pip install 'duplex-trio[mic]'"


@frozen
class SoundDevice:
    """One device, opened at `rate_hz`. `index` is the library's."""

    index: int
    name: str
    rate_hz: int


@frozen
class SoundDevices:
    """A microphone and a loudspeaker, by the `library` that opens them."""

    library: Any = field(repr=False)
    source: SoundDevice
    sink: SoundDevice


def load_sounddevice() -> ModuleType:
    """The `sounddevice` library.

    Raises:
        CommandError: it is not installed, or finds no sound system.
    """
    try:
        import sounddevice
    except ImportError:
        raise CommandError(f"The microphone needs the sounddevice library: {MIC_EXTRA}") from None
    except OSError as error:
        raise CommandError(
            f"The sound system cannot be used: {error}. On Debian and Ubuntu: apt install libportaudio2"
        ) from None
    return sounddevice  # type: ignore[no-any-return]


def find_devices(source: str | None = None, sink: str | None = None) -> SoundDevices:
    """The devices to talk with.

    Args:
        source: number or part of the name of the microphone; the system's own without.
        sink: the same of the loudspeaker.

    Raises:
        CommandError: no library, no such device, or more than one of that name.
    """
    library = load_sounddevice()
    return SoundDevices(
        library,
        _found(library, "input", source, MICROPHONE_HZ),
        _found(library, "output", sink, RECORDING_HZ),
    )


def list_devices() -> list[str]:
    """A line for each device: number, name, what it is for and its own rate; `*` marks those taken unasked.

    Raises:
        CommandError: no library, or no device.
    """
    library = load_sounddevice()
    devices = library.query_devices()
    if not len(devices):
        raise CommandError("There is no device for sound on this machine")
    usual = set()
    for kind in ("input", "output"):
        try:
            usual.add((kind, library.query_devices(kind=kind)["index"]))
        except (library.PortAudioError, ValueError):
            continue
    return [
        f"{device['index']:>3} {_uses(device, usual):<15} {device['default_samplerate']:>6.0f} Hz  {device['name']}"
        for device in devices
    ]


@contextmanager
def open_devices(devices: SoundDevices, microphone: LiveMicrophone, speaker: Loudspeaker) -> Iterator[float]:
    """Open both devices for the block and give the output's latency in seconds.

    Raises:
        CommandError: a device cannot be opened.
    """
    library, source, sink = devices.library, devices.source, devices.sink
    with ExitStack() as opened:
        try:
            recording = library.InputStream(
                device=source.index,
                samplerate=source.rate_hz,
                channels=1,
                dtype="float32",
                blocksize=source.rate_hz * FRAME_MS // 1000,
                callback=microphone.callback,
                finished_callback=microphone.finished,
            )
            playing = library.OutputStream(
                device=sink.index,
                samplerate=sink.rate_hz,
                channels=1,
                dtype="float32",
                callback=speaker.callback,
            )
            for stream in (recording, playing):  # a device that others hold refuses at its start only
                opened.enter_context(stream)
        except library.PortAudioError as error:
            raise CommandError(
                f"The sound devices cannot be opened: {error}. Other ones: duplex-trio talk --devices"
            ) from None
        yield float(playing.latency)


def _found(library: Any, kind: Kind, named: str | None, wanted_hz: int) -> SoundDevice:
    option = "--input-device" if kind == "input" else "--output-device"
    wanted = int(named) if named is not None and named.isdecimal() else named
    try:
        device = library.query_devices(wanted, kind)
    except (library.PortAudioError, ValueError) as error:
        what = f"There is no {kind} device for sound" if named is None else f"{option} {named}"
        raise CommandError(f"{what}: {error}. See duplex-trio talk --devices") from None
    index, name = int(device["index"]), str(device["name"])
    check = library.check_input_settings if kind == "input" else library.check_output_settings
    try:
        check(device=index, channels=1, dtype="float32", samplerate=wanted_hz)
    except library.PortAudioError:
        return SoundDevice(index, name, int(device["default_samplerate"]))
    return SoundDevice(index, name, wanted_hz)


def _uses(device: Any, usual: set[tuple[str, Any]]) -> str:
    uses = []
    for kind in ("input", "output"):
        if device[f"max_{kind}_channels"] > 0:
            uses.append(f"{kind}{'*' if (kind, device['index']) in usual else ''}")
    return " ".join(uses)
