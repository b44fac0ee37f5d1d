"""The machine-readable result of a conversation, and whether it counts as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from duplex_trio.cli.talk.latency import Exchange
from duplex_trio.cli.talk.recording import Sound
from duplex_trio.clients.events import ErrorEvent


@frozen(kw_only=True)
class TalkResult:
    """What came of a conversation.

    Attributes:
        url: of the server.
        model: name that the server gave.
        begin_s: when the microphone opened, on the clock of everything else.
        exchanges: every utterance with its answer.
        sound: both sides from `begin_s` on.
        errors: what the server refused.
        files: what was written.
    """

    url: str
    model: str
    begin_s: float
    exchanges: Sequence[Exchange]
    sound: Sound
    errors: Sequence[ErrorEvent] = ()
    files: Mapping[str, Path] = field(factory=dict)

    @property
    def complete(self) -> bool:
        """Whether something was said and every utterance got an answer."""
        return bool(self.exchanges) and all(exchange.answered for exchange in self.exchanges)

    def to_json(self) -> dict[str, Any]:
        """The result as plain values; times in ms since the microphone opened."""
        return {
            "url": self.url,
            "model": self.model,
            "complete": self.complete,
            "exchanges": [self._exchange(exchange) for exchange in self.exchanges],
            "errors": [{"code": event.code, "message": event.message} for event in self.errors],
            "files": {name: str(path) for name, path in self.files.items()},
        }

    def _exchange(self, exchange: Exchange) -> dict[str, Any]:
        return {
            "utterance": exchange.said.name,
            "transcript": exchange.transcript,
            "speech_start_ms": self._ms(exchange.said.speech_start_s),
            "speech_end_ms": self._ms(exchange.said.speech_end_s),
            "answer": self._answer(exchange),
            "wait_ms": None if exchange.wait is None else round(exchange.wait.total_ms, 1),
            "wait_parts_ms": None
            if exchange.wait is None
            else {name: round(value, 1) for name, value in exchange.wait.parts.items()},
            "interruption": None
            if exchange.interruption is None
            else {
                "to_silence_ms": round(exchange.interruption.total_ms, 1),
                "to_detection_ms": None
                if exchange.interruption.detection_ms is None
                else round(exchange.interruption.detection_ms, 1),
            },
        }

    def _answer(self, exchange: Exchange) -> dict[str, Any] | None:
        answer = exchange.answer
        if answer is None:
            return None
        return {
            "response_id": answer.response_id,
            "status": answer.status,
            "text": exchange.answer_text.strip(),
            "heard_text": exchange.heard_text.strip(),
            "kept_text": answer.kept_transcript,
            "interrupted": exchange.was_cut,
            "server_metrics": dict(answer.request_metrics),
        }

    def _ms(self, time_s: float) -> float:
        return round((time_s - self.begin_s) * 1000, 1)
