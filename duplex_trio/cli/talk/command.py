"""The `duplex-trio talk` command: options, recordings, and what is left behind at the end."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
from rich.console import Console

from duplex_trio.cli.errors import CommandError, UsageError
from duplex_trio.cli.own_server import (
    API_KEY_VARIABLE,
    explanation,
    key_from_environment,
    leaves_of,
    logging_to,
)
from duplex_trio.cli.talk.conversation import TalkOptions
from duplex_trio.cli.talk.devices import list_devices
from duplex_trio.cli.talk.picture import draw_picture
from duplex_trio.cli.talk.recording import RECORDING_HZ
from duplex_trio.cli.talk.report import TalkResult
from duplex_trio.cli.talk.run import run_talk
from duplex_trio.cli.talk.scenario import MICROPHONE_HZ, Utterance
from duplex_trio.cli.talk.view import View, choose_view
from duplex_trio.clients import DuplexClientError, build_realtime_url
from duplex_trio.clients.files import load_wav
from duplex_trio.protocol.duplex.audio import write_wav

SAMPLES = Path(__file__).parent / "samples"
_DESCRIPTION = """\
Hold a spoken conversation with the model: recordings are said in real time, the second one over the answer to
the first, and the answers are recorded as they would have been heard. Without --url a server is started for
it, in the same process; without recordings two that come with the package are used.
"""


def add_parser(subparsers: Any) -> None:
    """Add `talk` to the command line."""
    parser = subparsers.add_parser(
        "talk", help="hold a spoken conversation with the model", description=_DESCRIPTION
    )
    parser.add_argument("wav", metavar="WAV", nargs="*", type=Path, help="what to say: WAV files of any rate")
    parser.add_argument("--mic", action="store_true", help="talk yourself: microphone and loudspeaker")
    for kind, what in (("input", "microphone"), ("output", "loudspeaker")):
        parser.add_argument(
            f"--{kind}-device",
            metavar="DEVICE",
            help=f"{what} for --mic: its number or a part of its name (default: the system's)",
        )
    parser.add_argument(
        "--half-duplex",
        action="store_true",
        help="with --mic: hear nothing while the assistant speaks, where there are no headphones",
    )
    parser.add_argument("--devices", action="store_true", help="list the sound devices, and end")
    parser.add_argument("--url", metavar="URL", help="server to talk to (default: start one)")
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        default=key_from_environment(),
        help=f"default: {API_KEY_VARIABLE}",
    )
    parser.add_argument(
        "--deploy",
        metavar="NAME|FILE",
        help="deployment of the server that is started (default: cascade_cpu)",
    )
    for role, what in (("llm", "language model"), ("asr", "speech recognition"), ("tts", "speech synthesis")):
        parser.add_argument(
            f"--{role}", metavar="REF", help=f"{what}: a packaged name, a folder, a file or a hub id"
        )
    parser.add_argument("--instructions", metavar="TEXT", help="what the assistant is told about its task")
    parser.add_argument("--voice", metavar="NAME", help="voice of the assistant")
    parser.add_argument(
        "--barge-in-after",
        metavar="SECONDS",
        type=_seconds,
        default=1.0,
        help="say the second recording this long into the first answer (default: %(default)s)",
    )
    parser.add_argument("--no-barge-in", action="store_true", help="let every answer finish")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("talk-out"),
        help="where talk.wav and talk.png go (default: %(default)s)",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("-q", "--quiet", action="store_true", help="print only what goes wrong")
    output.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Talk; 0 when every utterance got an answer, else 1.

    Raises:
        CommandError: a recording, the server, a model or a device is not as it has to be.
        ModelReferenceError: a model is not there.
    """
    if args.devices:
        print("\n".join(list_devices()))
        return 0
    options = talk_options(args)
    out = _out_folder(args.out)
    console = Console()
    with logging_to(out / "talk.log"):
        view = choose_view(console, silent=args.quiet or args.json)
        try:
            result = trio.run(partial(run_talk, options, view))
        except (DuplexClientError, BaseExceptionGroup) as error:
            raise explained(error, log=out / "talk.log") from error
        finally:
            view.close()
    result = _write_files(result, out, view)
    if args.json:
        print(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    view.summary(f"A conversation with {result.model}", result.exchanges, list(result.files.values()))
    return 0 if result.complete else 1


def talk_options(args: argparse.Namespace) -> TalkOptions:
    """The options as a conversation takes them, with the recordings read.

    Raises:
        UsageError: they do not go together.
        CommandError: a recording cannot be read.
    """
    models = {"llm": args.llm, "asr": args.asr, "tts": args.tts}
    if args.mic and args.wav:
        raise UsageError("--mic and recordings exclude each other")
    for option in ("input_device", "output_device", "half_duplex"):
        if getattr(args, option) and not args.mic:
            raise UsageError(f"--{option.replace('_', '-')} is about --mic")
    if args.url is not None:
        if args.deploy is not None or any(models.values()):
            raise UsageError("--deploy, --llm, --asr and --tts choose what is served here, not of --url")
        try:
            build_realtime_url(args.url)
        except ValueError as error:
            raise UsageError(f"--url: {error}") from None
    return TalkOptions(
        utterances=[] if args.mic else load_utterances(args.wav),
        barge_in_after_s=None if args.no_barge_in else args.barge_in_after,
        url=args.url,
        deploy=args.deploy,
        models=models,
        instructions=args.instructions,
        voice=args.voice,
        api_key=args.api_key or None,
        input_device=args.input_device,
        output_device=args.output_device,
        half_duplex=args.half_duplex,
    )


def load_utterances(paths: Sequence[Path]) -> list[Utterance]:
    """Read recordings, or those that come with the package.

    Raises:
        CommandError: a file cannot be read.
    """
    try:
        return [
            Utterance.of(path.name, load_wav(path, MICROPHONE_HZ))
            for path in paths or sorted(SAMPLES.glob("*.wav"))
        ]
    except ValueError as error:
        raise CommandError(str(error)) from None


def explained(error: BaseException, *, log: Path) -> BaseException:
    """What to raise instead of an error that came out of the conversation: a `CommandError` if it was
    foreseen."""
    leaves = list(leaves_of(error))
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return KeyboardInterrupt()
    foreseen = [text for leaf in leaves if (text := explanation(leaf)) is not None]
    if len(foreseen) == len(leaves):
        return CommandError("; ".join(dict.fromkeys(foreseen)), details=f"The log is in {log}.")
    return error


def _out_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out: {path}: {error.strerror or error}") from None
    return path


def _write_files(result: TalkResult, out: Path, view: View) -> TalkResult:
    files = {"wav": out / "talk.wav"}
    try:
        write_wav(files["wav"], [result.sound.user, result.sound.assistant], RECORDING_HZ)
        picture = out / "talk.png"
        draw_picture(
            picture,
            result.sound,
            result.exchanges,
            result.begin_s,
            title=f"A conversation with {result.model}",
            subtitle="As it was heard; talk.wav has you on the left and the assistant on the right.",
        )
        files["png"] = picture
    except ImportError as error:
        view.note(f"No picture: {error}. pip install matplotlib")
    except OSError as error:
        raise CommandError(f"--out: {error.filename or out}: {error.strerror or error}") from None
    return attrs.evolve(result, files=files)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be 0 or more seconds, not {text}")
    return value
