"""Whole conversations against a server in memory that listens for loudness and answers with a tone."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from duplex_trio.cli.talk.conversation import TalkOptions
from duplex_trio.cli.talk.latency import Exchange
from duplex_trio.cli.talk.recording import RECORDING_HZ
from duplex_trio.cli.talk.run import run_talk
from duplex_trio.cli.talk.scenario import MICROPHONE_HZ, Utterance
from duplex_trio.cli.talk.transcript import Line
from duplex_trio.cli.talk.view import SilentView
from duplex_trio.clients import DuplexClientError
from duplex_trio.protocol.duplex.audio import Pcm, float_from_pcm16, pcm16_bytes
from duplex_trio.testing.wire_peer import WirePeer, scripted

HANG_OVER_MS, THINKING_S, ANSWER_MS, DELTA_MS = 400, 0.3, 3000, 100


@define
class LoudnessServer:
    """The server's side: a loud frame is speech, `HANG_OVER_MS` of quiet end it, and the answer is a tone.

    `acknowledged` holds the last `playback.ack` of each response.
    """

    nursery: trio.Nursery
    answers: bool = True
    drop_after: int | None = None
    token: str | None = None
    acknowledged: dict[str, int] = field(factory=dict)
    session: dict[str, Any] = field(factory=dict)
    _turns: int = 0
    _quiet_ms: float | None = None
    _answering: trio.CancelScope | None = None

    async def script(self, peer: WirePeer) -> None:
        self.session = (await peer.open_session({"model": "tone"}, token=self.token))["session"]
        await self.serve(peer)

    async def script_again(self, peer: WirePeer) -> None:
        """For a connection that follows one that was dropped: it brings the append that was under way again."""
        assert self.drop_after is not None
        await peer.resume_session(self.drop_after - 1)
        self.drop_after = None
        await self.serve(peer)

    async def serve(self, peer: WirePeer) -> None:
        appends = 0
        while True:
            command = await peer.receive("input_audio_buffer.append", "playback.ack", "session.close")
            match command["type"]:
                case "input_audio_buffer.append":
                    appends += 1
                    if appends == self.drop_after:
                        await peer.hang_up()
                        return
                    await self.hear(peer, command)
                case "playback.ack":
                    self.acknowledged[command["response_id"]] = command["played_ms"]
                case _:
                    if self._answering is not None:
                        self._answering.cancel()
                    await peer.send("session.closed", reason="client_close")
                    return

    async def hear(self, peer: WirePeer, command: dict[str, Any]) -> None:
        assert (command["format"], command["sample_rate_hz"]) == ("pcm16", MICROPHONE_HZ)
        pcm = float_from_pcm16(base64.b64decode(command["audio"]))
        if np.abs(pcm).max() > 0.05:
            if self._quiet_ms is None:
                self._turns += 1
                await self.cut(peer)
                await peer.send(
                    "input_audio_buffer.speech_started", item_id=f"u{self._turns}", audio_start_ms=0
                )
            self._quiet_ms = 0.0
        elif self._quiet_ms is not None:
            self._quiet_ms += command["duration_ms"]
            if self._quiet_ms >= HANG_OVER_MS:
                self._quiet_ms = None
                await self.end_turn(peer, f"u{self._turns}")

    async def end_turn(self, peer: WirePeer, item_id: str) -> None:
        await peer.send("input_audio_buffer.speech_stopped", item_id=item_id, audio_end_ms=0)
        await peer.send("input_audio_buffer.committed", item_id=item_id)
        completed = "conversation.item.input_audio_transcription.completed"
        await peer.send(completed, item_id=item_id, transcript=f"turn {item_id}")
        if self.answers:
            self._answering = trio.CancelScope()
            self.nursery.start_soon(self.answer, peer, f"r{self._turns}", self._answering)

    async def answer(self, peer: WirePeer, rid: str, scope: trio.CancelScope) -> None:
        with scope:
            await peer.send("response.created", response={"id": rid})
            await trio.sleep(THINKING_S)
            tone = np.sin(np.arange(RECORDING_HZ * DELTA_MS // 1000) * 0.06).astype(np.float32) * 0.5
            delta = base64.b64encode(pcm16_bytes(tone)).decode()
            duplex = {"format": "pcm16", "sample_rate_hz": RECORDING_HZ}
            for index in range(ANSWER_MS // DELTA_MS):
                item = {"response_id": rid, "item_id": f"item_{rid}"}
                await peer.send("response.output_audio.delta", **item, delta=delta, duplex=duplex)
                if index % 10 == 0:
                    text = f" second number {index // 10} of {rid}"
                    await peer.send("response.output_audio_transcript.delta", **item, delta=text)
                await trio.sleep(DELTA_MS / 1000)
            await peer.send("response.done", response={"id": rid, "status": "completed"})
            self._answering = None

    async def cut(self, peer: WirePeer) -> None:
        if self._answering is not None:
            self._answering.cancel()
            self._answering = None
            rid = f"r{self._turns - 1}"
            await peer.send("output_audio_buffer.cleared", response_id=rid)
            await peer.send("response.done", response={"id": rid, "status": "cancelled"})


@define
class KeepingView(SilentView):
    """Keeps what it was asked to show."""

    waited_for: list[str] = field(factory=list)
    shown: list[Sequence[Line]] = field(factory=list)
    levels: list[Pcm] = field(factory=list)
    notes: list[str] = field(factory=list)

    def waiting(self, what: str) -> None:
        self.waited_for.append(what)

    def show(self, lines: Sequence[Line], levels: Sequence[tuple[str, Pcm]]) -> None:
        self.shown.append(lines)
        self.levels.append(np.stack([level for _name, level in levels]))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def summary(self, title: str, exchanges: Sequence[Exchange], files: Sequence[Path]) -> None:
        raise AssertionError("the command prints the summary")


def utterance(name: str, length_s: float) -> Utterance:
    return Utterance.of(name, np.full(round(length_s * MICROPHONE_HZ), 0.4, np.float32))


def options(*lengths_s: float, **more: Any) -> TalkOptions:
    said = [utterance(str(index), length) for index, length in enumerate(lengths_s)]
    return TalkOptions(utterances=said, url="ws://test.invalid", **more)


async def test_the_second_utterance_interrupts_the_first_answer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server, view = LoudnessServer(nursery), KeepingView()
    result = await run_talk(
        options(0.8, 0.8, instructions="be brief"), view, connect=scripted(nursery, server.script)
    )
    assert result.complete
    assert (result.model, result.errors) == ("tone", [])
    assert server.session["instructions"] == "be brief"
    first, second = result.exchanges
    assert (first.transcript, second.transcript) == ("turn u1", "turn u2")
    assert first.was_cut
    assert not second.was_cut
    assert first.heard_text == " second number 0 of r1"
    assert second.heard_text == second.answer_text
    assert first.wait is not None
    assert second.interruption is not None
    assert first.wait.total_ms == pytest.approx(HANG_OVER_MS + THINKING_S * 1000, abs=50)
    assert second.interruption.total_ms == pytest.approx(20, abs=20)
    # The first answer sounds for one second before the user begins, plus the frame in which that is heard.
    assert server.acknowledged["r1"] == pytest.approx(1000 + 20, abs=60)
    assert server.acknowledged["r2"] == ANSWER_MS
    assert result.sound.unheard.any()
    played = np.abs(result.sound.assistant) > 0.01
    heard_s = (played.reshape(-1)[: len(played) // 240 * 240].reshape(-1, 240).any(axis=1)).sum() / 100
    assert heard_s == pytest.approx((server.acknowledged["r1"] + ANSWER_MS) / 1000, abs=0.1)


async def test_without_barge_in_both_answers_are_heard_to_their_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = LoudnessServer(nursery)
    chosen = options(0.5, 0.5, barge_in_after_s=None)
    result = await run_talk(chosen, SilentView(), connect=scripted(nursery, server.script))
    assert [exchange.was_cut for exchange in result.exchanges] == [False, False]
    assert server.acknowledged == {"r1": ANSWER_MS, "r2": ANSWER_MS}
    assert not result.sound.unheard.any()


async def test_the_view_sees_the_conversation_grow(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    server, view = LoudnessServer(nursery), KeepingView()
    await run_talk(options(0.5), view, connect=scripted(nursery, server.script))
    assert view.waited_for == ["Connecting to ws://test.invalid"]
    assert view.shown[0] == []
    texts = [lines[1].text for lines in view.shown if len(lines) == 2]
    assert len(set(texts)) > 5
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert texts[-1].endswith("second number 2 of r1")
    loudest = np.max(view.levels, axis=(0, 2))
    assert loudest == pytest.approx([0.4, 0.5], abs=0.05)


async def test_a_server_that_does_not_answer_is_waited_for_and_reported(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = LoudnessServer(nursery, answers=False)
    result = await run_talk(
        options(0.5, 0.5, patience_s=5), SilentView(), connect=scripted(nursery, server.script)
    )
    assert not result.complete
    assert [exchange.answered for exchange in result.exchanges] == [False, False]
    assert [exchange.transcript for exchange in result.exchanges] == ["turn u1", "turn u2"]


async def test_a_server_that_goes_away_ends_the_conversation_with_its_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = LoudnessServer(nursery, drop_after=30)
    with pytest.raises(BaseExceptionGroup) as caught:
        await run_talk(options(0.5), SilentView(), connect=scripted(nursery, server.script))
    assert caught.value.split(DuplexClientError)[1] is None


async def test_a_lost_connection_is_shown_and_changes_nothing(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server, view = LoudnessServer(nursery, drop_after=20, token="secret"), KeepingView()
    scripts = iter((server.script, server.script_again))

    async def connect(host: str, port: int, tls: bool) -> trio.abc.Stream:
        return await scripted(nursery, next(scripts))(host, port, tls)

    result = await run_talk(options(0.8), view, connect=connect)
    assert result.complete
    assert result.exchanges[0].transcript == "turn u1"
    lost, back = view.notes
    assert lost.startswith(
        "Connection lost, trying to get it back: the connection was closed by the server: 1006"
    )
    assert back == "The connection is back, and nothing was missed."
