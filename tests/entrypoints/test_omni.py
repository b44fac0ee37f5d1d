"""The synchronous entry, with real threads: batches, their order, what fails, what interrupts them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from duplex_trio.entrypoints.async_omni import OmniRequest, RequestFailed, RequestRefused, Sound, WarmUpError
from duplex_trio.entrypoints.omni import Omni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.workers import ScriptedLlm, tone
from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.worker import StageWorker, WorkerContext

GUARD_S = 30.0


class Gate:
    """Holds up the language model of a pipeline until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()


class _HeldLlm(ScriptedLlm):
    def __init__(self, script: Script, gate: Gate) -> None:
        super().__init__(script)
        self._gate = gate

    def step(self, context: WorkerContext) -> bool:
        if self._waiting:
            self._gate.reached.set()
            assert self._gate.open.wait(GUARD_S)
        return super().step(context)


class Held(ScriptedPipeline):
    """A scripted pipeline behind a gate."""

    def __init__(self, gate: Gate, script: Script | None = None) -> None:
        super().__init__(script=script)
        self._gate = gate

    def build_worker(self, stage_id: int) -> StageWorker:
        return _HeldLlm(self.script, self._gate) if stage_id == 1 else super().build_worker(stage_id)


class _UnloadableLlm(ScriptedLlm):
    def load(self) -> None:
        raise OSError("no such weights")


class Unloadable(ScriptedPipeline):
    def build_worker(self, stage_id: int) -> StageWorker:
        return _UnloadableLlm(self.script) if stage_id == 1 else super().build_worker(stage_id)


@pytest.fixture
def omni() -> Iterator[Omni]:
    with Omni(ScriptedPipeline(script=Script(fail_on=frozenset({"boom"})))) as omni:
        yield omni


class Bar:
    """What `tqdm` makes, as far as it is used."""

    def __init__(self, *, total: int, desc: str) -> None:
        self.total, self.desc, self.done, self.closed = total, desc, 0, False

    def update(self, n: int = 1) -> None:
        self.done += n

    def close(self) -> None:
        self.closed = True


def test_a_batch_is_answered_in_its_order(omni: Omni) -> None:
    prompts = [f"number {word}" for word in ("one", "two", "three", "four")] * 50
    assert [result.text for result in omni.generate(prompts)] == [f"You said: {prompt}" for prompt in prompts]


def test_one_request_is_a_batch_too(omni: Omni) -> None:
    assert [result.text for result in omni.generate("hello")] == ["You said: hello"]
    assert omni.generate([]) == []
    spoken = OmniRequest(Sound(tone(500), 24_000), modalities=["text", "audio"], request_id="mine")
    (result,) = omni.generate(spoken)
    assert (result.request_id, result.transcript) == ("mine", "sound of 0.5 seconds")
    assert len(result.pcm) > 24_000


def test_a_request_that_fails_costs_the_others_nothing(omni: Omni) -> None:
    wrong = OmniRequest("x", voice="nobody")
    one, failed, refused, four = omni.generate(["one", "boom", wrong, "four"])
    assert (one.text, four.text) == ("You said: one", "You said: four")
    assert (one.error, four.error) == (None, None)
    assert isinstance(failed.error, RequestFailed)
    assert (failed.error.code, failed.finish_reason) == ("engine_error", None)
    assert isinstance(refused.error, RequestRefused)
    assert refused.error.param == "voice"


def test_what_is_no_request_is_told_before_anything_is_asked(omni: Omni) -> None:
    with pytest.raises(TypeError, match=r"requests\[1\] is a int"):
        omni.generate(["x", 5])  # type: ignore[list-item]


@pytest.mark.parametrize("given", [None, 5, b"hello", {"hello": 1}])
def test_what_is_no_batch_is_told_by_its_type(omni: Omni, given: Any) -> None:
    """Bytes are not asked as numbers, nor is a mapping by its keys."""
    with pytest.raises(TypeError, match=f"requests is a {type(given).__name__}, not a text"):
        omni.generate(given)


def test_a_request_that_is_refused_keeps_its_id(omni: Omni) -> None:
    results = omni.generate([OmniRequest("a", request_id="one"), OmniRequest("", request_id="two")])
    assert [(result.request_id, result.error is None) for result in results] == [
        ("one", True),
        ("two", False),
    ]


def test_a_bar_of_ones_own_sees_every_answer(omni: Omni) -> None:
    bars: list[Bar] = []

    def make(**said: Any) -> Bar:
        bars.append(Bar(**said))
        return bars[-1]

    omni.generate(["a", "boom", "c"], progress=make)
    assert [(bar.total, bar.done, bar.closed) for bar in bars] == [(3, 3, True)]


def test_a_bar_that_breaks_ends_the_batch_alone(omni: Omni) -> None:
    class Broken(Bar):
        def update(self, n: int = 1) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        omni.generate(["a", "b", "c"], progress=Broken)
    assert omni.generate("still there?")[0].error is None


def test_nothing_is_shown_where_there_is_no_terminal(omni: Omni, capfd: pytest.CaptureFixture[str]) -> None:
    omni.generate(["a", "b"])
    omni.generate(["a", "b"], progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_shown_on_a_terminal(
    omni: Omni, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    omni.generate(["a", "b"])
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "2/2" in shown.err


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is an exception, also where the tests run in the background of a shell that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_batch_and_leaves_the_model_usable(interruptible: None) -> None:
    """The interrupt reaches whoever waits, nothing of the batch goes on, and another batch is answered."""
    gate, bars = Gate(), list[Bar]()

    def interrupt() -> None:
        assert gate.reached.wait(GUARD_S)
        os.kill(os.getpid(), signal.SIGINT)
        gate.open.set()

    def make(**said: Any) -> Bar:
        bars.append(Bar(**said))
        return bars[-1]

    with Omni(Held(gate, Script(otherwise=lambda _: "word " * 2000)), warm_up=False) as omni:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            omni.generate([OmniRequest("x", max_output_tokens=2000)] * 30, progress=make)
        thread.join()
        assert bars[0].closed
        assert [result.text for result in omni.generate([OmniRequest("y", max_output_tokens=1)])] == ["word"]


def test_several_threads_may_ask_at_once(omni: Omni) -> None:
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda word: omni.generate([word] * 20), ["a", "b", "c", "d"] * 4))
    for word, results in zip(["a", "b", "c", "d"] * 4, batches, strict=True):
        assert {result.text for result in results} == {f"You said: {word}"}


def test_it_works_inside_of_another_event_loop(omni: Omni) -> None:
    """As in a notebook, whose cells run in a loop of asyncio."""

    async def cell() -> str:
        return omni.generate("hello")[0].text

    assert asyncio.run(cell()) == "You said: hello"


def test_the_first_batch_loads_the_model() -> None:
    omni = Omni(ScriptedPipeline())
    try:
        assert omni.generate("hello")[0].text == "You said: hello"
        omni.load()
    finally:
        omni.close()
    omni.close()
    with pytest.raises(RuntimeError, match="was closed"):
        omni.generate("hello")
    with pytest.raises(RuntimeError, match="was closed"):
        omni.load()


def test_what_keeps_the_model_from_loading_is_told_as_it_is() -> None:
    with pytest.raises(StageLoadError, match="no such weights"):
        Omni(Unloadable()).load()
    with pytest.raises(WarmUpError, match="scripted failure"):
        Omni(ScriptedPipeline(script=Script(fail_on=frozenset({"Hello!"})))).load()


def test_a_close_tells_whoever_waits() -> None:
    gate = Gate()
    omni = Omni(Held(gate), warm_up=False)
    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(omni.generate, ["x", "y"])
        assert gate.reached.wait(GUARD_S)
        closing = pool.submit(omni.close)
        gate.open.set()
        closing.result(GUARD_S)
        errors = [result.error for result in waits.result(GUARD_S) if result.error is not None]
        assert all(error.code == "server_shutdown" for error in errors)
    assert not any(thread.name == "omni" for thread in threading.enumerate())


def test_a_program_may_end_without_closing() -> None:
    """The end of the interpreter closes the model; nothing hangs, nothing is printed."""
    import subprocess
    import sys

    program = (
        "from duplex_trio.entrypoints.omni import Omni\n"
        "from duplex_trio.models.scripted.pipeline import ScriptedPipeline\n"
        "print(Omni(ScriptedPipeline()).generate('hello')[0].text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hello\n", "")
