"""The `duplex-trio video` command: options, and what is told at the end."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from rich.console import Console

from duplex_trio.cli.errors import INTERRUPTED, CommandError, UsageError
from duplex_trio.cli.own_server import (
    API_KEY_VARIABLE,
    explanation,
    key_from_environment,
    leaves_of,
    logging_to,
)
from duplex_trio.cli.video.file import ClipFile
from duplex_trio.cli.video.recording import ClipOptions
from duplex_trio.cli.video.result import ClipResult
from duplex_trio.cli.video.run import DEFAULT_MODEL, run_clip
from duplex_trio.cli.video.steering import plan_turns
from duplex_trio.cli.video.times import parse_length, parse_size, parse_time, shown_time
from duplex_trio.cli.video.view import choose_view
from duplex_trio.clients.url import build_video_url
from duplex_trio.clients.video import VideoClientError, VideoFailedError, VideoRefusedError

_SUFFIXES = {"m4s": ".mp4", "webm": ".webm"}
_FORMATS = {".mp4": "m4s", ".m4s": "m4s", ".m4v": "m4s", ".webm": "webm"}
_OPTIONS = {
    "width": "--size",
    "height": "--size",
    "fps": "--fps",
    "seconds": "--seconds",
    "num_frames": "--seconds",
    "seed": "--seed",
    "format": "--format",
    "model": "--model",
    "prompt": "PROMPT",
}
_DESCRIPTION = """\
Make a video from a prompt, change the prompt while it runs, and write it to a file, which plays while it is being
written. Without --url a server is started for it, in the same process. Generation goes as fast as it can, not at the
pace of playback, and times are those of playback. Ctrl-C ends the clip early and leaves a whole file.
"""


def add_parser(subparsers: Any) -> None:
    """Add `video` to the command line."""
    parser = subparsers.add_parser("video", help="make a video that prompts steer", description=_DESCRIPTION)
    parser.add_argument("prompt", metavar="PROMPT", type=_prompt, help="what it begins with")
    parser.add_argument(
        "--then",
        metavar=("TIME", "PROMPT"),
        nargs=2,
        action="append",
        default=[],
        help="from TIME (3s, 1.5, 500ms) on show something else; may be repeated, in any order",
    )
    parser.add_argument(
        "--transition",
        metavar="CHUNKS",
        type=_whole(0, 10_000),
        help="chunks that a change takes, 0 for at once (default: the model's)",
    )
    parser.add_argument(
        "--size", metavar="WxH", type=parse_size, default=(512, 512), help="pixels (default: 512x512)"
    )
    parser.add_argument("--fps", metavar="N", type=_fps, help="frames a second (default: the model's)")
    parser.add_argument(
        "--seconds", metavar="TIME", type=parse_length, default=8.0, help="length (default: %(default)g)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=_whole(0, 2**63 - 1), help="makes the same video again (default: any)"
    )
    parser.add_argument(
        "--format",
        choices=sorted(_SUFFIXES),
        help="fragmented MP4 or WebM (default: what --out says, else m4s)",
    )
    parser.add_argument(
        "--model",
        metavar="scene|glyph-flow|NAME|FILE",
        help=f"deployment to serve (default: {DEFAULT_MODEL}); with --url the name of the model there",
    )
    parser.add_argument("--url", metavar="URL", help="server to ask (default: start one)")
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        default=key_from_environment(),
        help=f"default: {API_KEY_VARIABLE}",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="where to (default: video.mp4 or video.webm); overwritten"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("-q", "--quiet", action="store_true", help="print only what goes wrong")
    output.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the clip; 0 when it is whole and every prompt was shown, 1 when one was not, 130 after Ctrl-C.

    Raises:
        CommandError: an option, the file, the server or a model is not as it has to be.
        ModelReferenceError: a model is not there.
    """
    options, path = clip_options(args)
    view = choose_view(Console(), silent=args.quiet or args.json)
    file = ClipFile(path)
    try:
        with _log_kept_on_failure() as log:
            try:
                result = trio.run(partial(run_clip, options, file, view))
            except (VideoClientError, BaseExceptionGroup) as error:
                raise _explained(error, file, log) from error
            finally:
                view.close()
    finally:
        file.close()
    if args.json:
        print(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    view.summary(result)
    return _status(result)


def clip_options(args: argparse.Namespace) -> tuple[ClipOptions, Path]:
    """The options as a clip takes them, and where it goes.

    Raises:
        UsageError: they do not go together, or one of them is wrong.
        CommandError: the file cannot be there, or PyAV is not.
    """
    form = args.format or _FORMATS.get("" if args.out is None else args.out.suffix.lower(), "m4s")
    path: Path = args.out or Path(f"video{_SUFFIXES[form]}")
    named = _FORMATS.get(path.suffix.lower(), form)
    if named != form:
        raise UsageError(f"--out {path} has the name of another format than --format {form}")
    if path.is_dir():
        raise CommandError(f"--out: {path} is a folder")
    if args.url is not None:
        try:
            build_video_url(args.url)
        except ValueError as error:
            raise UsageError(f"--url: {error}") from None
    elif importlib.util.find_spec("av") is None:
        raise CommandError("making a video needs PyAV: pip install av")
    options = ClipOptions(
        prompt=args.prompt,
        turns=tuple(plan_turns(_wanted(args))),
        transition_chunks=args.transition,
        seconds=args.seconds,
        size=args.size,
        fps=args.fps,
        seed=args.seed,
        format=form,
        model=args.model,
        url=args.url,
        api_key=args.api_key or None,
    )
    return options, path


def _wanted(args: argparse.Namespace) -> Iterator[tuple[float, str]]:
    for time, prompt in args.then:
        try:
            at_s = parse_time(time)
            yield at_s, _prompt(prompt)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--then: {error}") from None
        if at_s >= args.seconds:
            raise UsageError(
                f"--then {time}: the clip has ended by then; it is {shown_time(args.seconds)} long"
            )


@contextmanager
def _log_kept_on_failure() -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="duplex-trio-video-", suffix=".log")
    os.close(handle)
    log, failed = Path(name), False
    try:
        with logging_to(log):
            yield log
    except Exception:  # Ctrl-C tells of no log
        failed = True
        raise
    finally:
        if not (failed and log.stat().st_size):
            log.unlink()


def _status(result: ClipResult) -> int:
    if result.interrupted:
        return INTERRUPTED
    return 0 if all(turn.outcome in ("completed", "interrupted") for turn in result.turns) else 1


def _explained(error: BaseException, file: ClipFile, log: Path) -> BaseException:
    leaves = list(leaves_of(error))
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return KeyboardInterrupt()
    texts = [text for leaf in leaves if (text := _explanation(leaf)) is not None]
    if len(texts) < len(leaves):
        return error
    details = [f"What had come is in {file.path}."] if file.size_bytes else []
    details += [f"The log is in {log}."] if log.stat().st_size else []
    return CommandError("; ".join(dict.fromkeys(texts)), details=" ".join(details))


def _explanation(error: BaseException) -> str | None:
    if isinstance(error, VideoRefusedError):
        name = error.param or ""
        said = error.message.removeprefix(f"{name}: ")  # the option says it in the person's words
        return f"{_OPTIONS[name]}: {said}" if name in _OPTIONS else f"the server refuses the video: {error}"
    if isinstance(error, VideoFailedError):
        return f"the video failed: {error}"
    return explanation(error)


def _prompt(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("a prompt must not be blank")
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of another encoding, as Python has them in arguments
        raise argparse.ArgumentTypeError(f"a prompt must be text in UTF-8: {text!r}") from None
    return text


def _fps(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
    if not 1 <= value <= 60:
        raise argparse.ArgumentTypeError(f"must be 1 to 60 frames a second, not {text}")
    return value


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"not a whole number: {text!r}") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be {low} to {high}, not {text}")
        return value

    return parse
