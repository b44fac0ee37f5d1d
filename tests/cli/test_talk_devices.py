"""Which sound devices are taken, and a whole conversation through two that call back on threads of their own."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
import trio

from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.main import main
from duplex_trio.cli.talk.conversation import TalkOptions
from duplex_trio.cli.talk.devices import find_devices, list_devices, open_devices
from duplex_trio.cli.talk.run import run_talk
from duplex_trio.cli.talk.view import SilentView
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server

Block = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class PortAudioError(Exception):
    pass


class Stream:
    """A stream of the library: a thread that calls back for one block after another, in real time."""

    def __init__(self, *, blocks: Callable[[int], Block | None], **options: Any) -> None:
        self.options = options
        self.latency = 0.01
        self._blocks = blocks
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        size = self.options.get("blocksize") or 480
        pause_s = size / self.options["samplerate"]
        number, begin_s = 0, time.monotonic()
        while not self._ended.wait(max(0.0, begin_s + number * pause_s - time.monotonic())):
            block = self._blocks(size)
            if block is None:
                break
            self.options["callback"](block, size, None, None)
            number += 1
        if finished := self.options.get("finished_callback"):
            finished()


class Library(ModuleType):
    """What `sounddevice` is of a machine with these devices; the microphone hears `hears`, then silence or its end."""

    PortAudioError = PortAudioError

    def __init__(self, hears: Block | None = None, *, unplugged: bool = False) -> None:
        super().__init__("sounddevice")
        self.devices = [
            {"index": 0, "name": "Built-in Microphone", "max_input_channels": 1, "max_output_channels": 0},
            {"index": 1, "name": "Built-in Speakers", "max_input_channels": 0, "max_output_channels": 2},
            {"index": 2, "name": "USB Headset", "max_input_channels": 1, "max_output_channels": 2},
        ]
        for device in self.devices:
            device["default_samplerate"] = 48_000.0
        self.any_rate = {0, 1}
        self.hears = np.zeros(0, np.float32) if hears is None else hears
        self.unplugged = unplugged
        self.played: list[Block] = []

    def query_devices(self, device: int | str | None = None, kind: str | None = None) -> Any:
        if device is None and kind is None:
            return self.devices
        able = [one for one in self.devices if kind is None or one[f"max_{kind}_channels"]]  # type: ignore[operator]
        if device is None:
            return able[0]
        found = [
            one for one in able if device == one["index"] or str(device).lower() in str(one["name"]).lower()
        ]
        if len(found) != 1 or (isinstance(device, str) and not device):
            raise ValueError(f"{'No' if not found else 'Multiple'} {kind} device matching {device!r}")
        return found[0]

    def check_input_settings(self, *, device: int, samplerate: int, **_: object) -> None:
        if device not in self.any_rate and samplerate != 48_000:
            raise PortAudioError("Invalid sample rate")

    check_output_settings = check_input_settings

    def InputStream(self, **options: Any) -> Stream:
        def block(size: int) -> Block | None:
            part, self.hears = self.hears[:size], self.hears[size:]
            if not len(part) and self.unplugged:
                return None
            return np.pad(part, (0, size - len(part)))[:, None]

        return Stream(blocks=block, **options)

    def OutputStream(self, **options: Any) -> Stream:
        def block(size: int) -> Block:
            self.played.append(np.full((size, 1), 9.0, np.float32))
            return self.played[-1]

        return Stream(blocks=block, **options)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "sounddevice", made)
    return made


def test_the_systems_own_devices_are_taken_at_our_rates(library: Library) -> None:
    found = find_devices()
    assert (found.source.name, found.source.rate_hz) == ("Built-in Microphone", 16_000)
    assert (found.sink.name, found.sink.rate_hz) == ("Built-in Speakers", 24_000)


@pytest.mark.parametrize("named", ["2", "headset"])
def test_a_device_is_named_and_keeps_its_rate_where_it_has_no_other(library: Library, named: str) -> None:
    found = find_devices(named, named)
    assert (found.source.index, found.source.rate_hz) == (2, 48_000)
    assert (found.sink.index, found.sink.rate_hz) == (2, 48_000)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("line", None), "--input-device line: No input device matching 'line'"),
        ((None, "7"), "--output-device 7: No output device matching 7"),
        ((None, "s"), "--output-device s: Multiple output device matching 's'"),
    ],
)
def test_a_device_that_there_is_not_is_said(
    library: Library, names: tuple[str | None, str | None], said: str
) -> None:
    with pytest.raises(CommandError) as raised:
        find_devices(*names)
    assert str(raised.value) == f"{said}. See duplex-trio talk --devices"


def test_the_devices_are_listed(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_devices() == [
        "  0 input*           48000 Hz  Built-in Microphone",
        "  1 output*          48000 Hz  Built-in Speakers",
        "  2 input output     48000 Hz  USB Headset",
    ]
    assert main(["talk", "--devices"]) == 0
    assert "USB Headset" in capsys.readouterr().out


def test_a_machine_without_devices_says_so(library: Library) -> None:
    library.devices.clear()
    with pytest.raises(CommandError, match="There is no device for sound"):
        list_devices()


@pytest.mark.parametrize("kind", ["InputStream", "OutputStream"])
@pytest.mark.parametrize("moment", ["opened", "started"])
def test_a_device_that_refuses_is_said_whenever_it_does(
    library: Library, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    make = getattr(library, kind)

    def refuse() -> NoReturn:
        raise PortAudioError("Device unavailable")

    def refusing(**options: Any) -> Stream:
        stream: Stream = refuse() if moment == "opened" else make(**options)
        monkeypatch.setattr(stream._thread, "start", refuse)
        return stream

    monkeypatch.setattr(library, kind, refusing)
    deaf: Any = SimpleNamespace(callback=lambda *_: None, finished=lambda: None)
    said = "The sound devices cannot be opened: Device unavailable"
    with pytest.raises(CommandError, match=said), open_devices(find_devices(), deaf, deaf):
        pass


def test_a_missing_library_is_said_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(CommandError, match=r"pip install 'duplex-trio\[mic\]'"):
        find_devices()


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("device", [None, "headset"])
async def test_a_conversation_goes_through_the_devices(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, device: str | None
) -> None:
    """A loud second is heard, and its answer is played by a loudspeaker of another rate."""
    rate_hz = 16_000 if device is None else 48_000
    time_s = np.arange(rate_hz) / rate_hz
    loud = (0.4 * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32)
    library = Library(np.concatenate((loud, np.zeros(2 * rate_hz, np.float32))), unplugged=True)
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    script = Script(heard=["hello"], replies={"hello": "very well"}, word_ms=200)
    factory = partial(DuplexOmni, ScriptedPipeline(script=script), warm_up=False)
    address = await nursery.start(partial(run_server, factory, ServeOptions(port=0)))
    options = TalkOptions(url=address.ws_url, input_device=device, output_device=device)
    with trio.fail_after(60):
        result = await run_talk(options, SilentView())
    assert result.complete
    assert [exchange.answer_text for exchange in result.exchanges] == ["very well"]
    heard = np.concatenate([block[:, 0] for block in library.played])
    sounding = np.count_nonzero(np.abs(heard) > 0.02) / (24_000 if device is None else 48_000)
    assert sounding == pytest.approx(0.4, rel=0.25)  # two words of a tone, less its zeros
    nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.e2e
async def test_ctrl_c_ends_a_conversation_that_nobody_ends(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library()
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    factory = partial(DuplexOmni, ScriptedPipeline(), warm_up=False)
    address = await nursery.start(partial(run_server, factory, ServeOptions(port=0)))

    class Interrupting(SilentView):
        def note(self, text: str) -> None:
            if text.startswith("Speak"):
                trio.lowlevel.current_trio_token().run_sync_soon(signal.raise_signal, signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with trio.fail_after(60):
        result = await run_talk(TalkOptions(url=address.ws_url), Interrupting())
    assert not result.complete
    assert signal.getsignal(signal.SIGINT) is before
    nursery.cancel_scope.cancel()
