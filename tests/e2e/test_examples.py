"""The programs of examples/ do what they say, run as a user runs them, against a scripted server."""

from __future__ import annotations

import base64
import os
import re
import runpy
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest

from duplex_trio.clients.events import parse_event
from duplex_trio.testing.server_process import ServedPort, server_process

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
START_TIMEOUT_S = 120.0
DEPLOYMENT = """
base_config: scripted
stages:
  - stage_id: 0
    engine_args: {heard: [what is a good breakfast, what is a good breakfast, what is a good breakfast]}
  - stage_id: 1
    engine_args:
      replies:
        what is a good breakfast: Porridge is.
        Set a timer for five minutes.: '<tool_call>{"name": "set_timer", "arguments": {"minutes": 5}}</tool_call>'
        What is the weather in Paris?: '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
duplex_session: {max_sessions: 2, idle_ttl_s: 2}
"""

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("examples") / "scripted.yaml"
    path.write_text(DEPLOYMENT)
    return path


@pytest.fixture(scope="module")
def server(deployment: Path) -> Iterator[ServedPort]:
    arguments = ("--deploy", str(deployment), "--api-key", "k-1", "--video-model", "none")
    with server_process(*arguments, start_timeout_s=START_TIMEOUT_S) as running:
        yield running


def run(
    folder: Path, name: str, *arguments: str, url: str, key: str | None = "k-1", status: int = 0
) -> list[str]:
    """What an example prints, line by line; what it complains of, where it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DUPLEX_TRIO_")}
    environment |= {"PYTHONPATH": str(ROOT), "DUPLEX_TRIO_URL": url}
    environment |= {} if key is None else {"DUPLEX_TRIO_API_KEY": key}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return (done.stderr if status else done.stdout).splitlines()


def length_ms(path: Path) -> int:
    with wave.open(str(path), "rb") as file:
        return file.getnframes() * 1000 // file.getframerate()


def test_one_turn(server: ServedPort, tmp_path: Path) -> None:
    you, assistant, kept = run(tmp_path, "one_turn.py", url=server.ws_url)
    assert you == "You:       what is a good breakfast"
    assert assistant == "Assistant: Porridge is."
    assert kept == "600 ms of speech in answer.wav"
    assert length_ms(tmp_path / "answer.wav") == 600


def test_barge_in(server: ServedPort, tmp_path: Path) -> None:
    long = "Tell me of " + "the sea and " * 10
    made, heard, remembered, status = run(tmp_path, "barge_in.py", long, "--after", "0.7", url=server.ws_url)
    assert made.startswith("made:       You said: Tell me of")
    heard_ms = int(re.fullmatch(r"heard:      (\d+) ms of it", heard)[1])  # type: ignore[index]
    assert 700 <= heard_ms < 2000
    assert 0 < len(remembered.removeprefix("remembered: ")) < len(made)
    assert re.fullmatch(r"status:     cancelled, epoch 1, told after \d+ ms", status)


def test_barge_in_without_a_server(deployment: Path, tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        "barge_in.py",
        "--inline",
        "--deploy",
        str(deployment),
        "--after",
        "0.3",
        url="ws://127.0.0.1:1",
    )
    lines = [line for line in printed if line.startswith(("made", "heard", "remembered", "status"))]
    assert len(lines) == 4
    assert "cancelled" in lines[3]


def test_many_sessions(server: ServedPort, tmp_path: Path) -> None:
    admission, resume, takeover, expiry = run(tmp_path, "many_sessions.py", url=server.ws_url)
    assert admission.split(maxsplit=1)[1] == "2 sessions; one more is refused: resource_exhausted"
    assert resume.split(maxsplit=1)[1] == (
        "cut in mid-answer, resumed over connection 2, the answer is completed"
    )
    assert "the second heard session.resumed, the first " in takeover
    assert re.search(r"idle_ttl_expired after [234]\.\d s of silence", expiry)


def test_an_agent_calls_a_function(deployment: Path, tmp_path: Path) -> None:
    printed = run(tmp_path, "agent_with_a_tool.py", "--deploy", str(deployment), url="ws://127.0.0.1:1")
    assert '  get_weather({"city": "Paris"}) -> {"city": "Paris", "weather": "sunny, 24 degrees"}' in printed
    assert printed[-1].endswith(" ms of speech in agent.wav")
    assert length_ms(tmp_path / "agent.wav") > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"city": "Oslo"}', '"rain, 9 degrees"'),
        ('{"city": "Atlantis"}', "no weather is known for Atlantis"),
        ('{"town": "Rome"}', "error"),
        ("not JSON", "error"),
    ],
)
def test_an_agents_function_hears_what_is_wrong_with_its_call(arguments: str, said: str) -> None:
    program = runpy.run_path(str(EXAMPLES / "agent_with_a_tool.py"))
    raw = {
        "type": "response.function_call_arguments.done",
        "arguments": arguments,
        "call_id": "c",
        "name": "n",
    }
    assert said in program["carry_out"](parse_event(raw))


def test_openais_sdk(server: ServedPort, tmp_path: Path) -> None:
    printed = run(tmp_path, "openai_sdk.py", url=server.ws_base.removesuffix("/v1"))
    assert printed[:3] == [
        "You:       what is a good breakfast",
        "Assistant: Porridge is.",
        "600 ms of speech in answer.wav",
    ]
    assert printed[3] == '  set_timer({"minutes": 5})'
    assert printed[4].startswith("Assistant: ")


def test_push_to_talk(server: ServedPort, tmp_path: Path) -> None:
    run(tmp_path, "one_turn.py", url=server.ws_url)  # something short to say
    printed = run(tmp_path, "push_to_talk.py", "answer.wav", "answer.wav", url=server.ws_url)
    assert printed == [
        "Assistant: Porridge is.",
        "Assistant: Porridge is.",
        "1200 ms of speech in answers.wav",
    ]


def test_a_telephone_call(server: ServedPort, tmp_path: Path) -> None:
    printed = run(tmp_path, "telephone.py", "--hang-up", "1.5", url=server.ws_url)
    assert "Caller:    what is a good breakfast" in printed
    assert "Assistant: Porridge is." in printed
    assert re.fullmatch(r"\d+ ms on the line, 0 ms cut by the caller, heard in callee\.wav", printed[-1])
    with wave.open(str(tmp_path / "callee.wav"), "rb") as file:
        assert (file.getframerate(), file.getnchannels()) == (8000, 1)
        assert any(file.readframes(file.getnframes()))


@pytest.mark.parametrize(
    "cut",
    [
        {"type": "output_audio_buffer.cleared", "response_id": "r"},
        {"type": "response.done", "response": {"id": "r", "status": "cancelled"}},
    ],
)
def test_a_gateway_drops_what_is_cut(cut: dict[str, object]) -> None:
    program = runpy.run_path(str(EXAMPLES / "telephone.py"))
    playout = program["Playout"]()
    sound = base64.b64encode(bytes(400)).decode()
    playout.observe(parse_event({"type": "response.output_audio.delta", "response_id": "r", "delta": sound}))
    assert playout.next() == bytes(160)
    playout.observe(parse_event(cut))
    assert playout.next() == program["SILENCE"]
    assert playout.cleared == 1


def test_a_plain_script(server: ServedPort, tmp_path: Path) -> None:
    printed = run(tmp_path, "synchronous.py", "hello", "what is a good breakfast", url=server.ws_url)
    assert printed == [
        "You:       hello",
        "Assistant: You said: hello",
        "You:       what is a good breakfast",
        "Assistant: Porridge is.",
        "1500 ms of speech in answers.wav",
    ]


@pytest.mark.parametrize(
    "name",
    ["one_turn.py", "barge_in.py", "many_sessions.py", "push_to_talk.py", "telephone.py", "synchronous.py"],
)
def test_a_server_that_is_not_there_is_one_line(name: str, tmp_path: Path) -> None:
    sample = str(EXAMPLES.parent / "duplex_trio/cli/talk/samples/1-breakfast.wav")
    arguments = [sample] if name == "push_to_talk.py" else []
    (line,) = run(tmp_path, name, *arguments, url="ws://127.0.0.1:1", status=1)
    assert line.startswith(f"{name.removesuffix('.py')}: cannot connect to ws://127.0.0.1:1")


def test_a_wrong_key_and_a_file_that_is_none_are_one_line(server: ServedPort, tmp_path: Path) -> None:
    (line,) = run(tmp_path, "one_turn.py", url=server.ws_url, key="wrong", status=1)
    assert "an API key is needed, or this one is wrong" in line
    (line,) = run(tmp_path, "one_turn.py", "nothing.wav", url=server.ws_url, status=1)
    assert line == "one_turn: nothing.wav: No such file or directory"


def test_they_pass_the_type_checker() -> None:
    files = sorted(map(str, EXAMPLES.glob("*.py")))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", *files],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.models
def test_the_real_models_take_part(real_server: ServedPort, tmp_path: Path) -> None:
    printed = run(tmp_path, "one_turn.py", url=real_server.ws_url, key=None)
    assert "breakfast" in printed[0]
    assert length_ms(tmp_path / "answer.wav") > 500
    printed = run(tmp_path, "barge_in.py", url=real_server.ws_url, key=None)
    assert "cancelled" in printed[-1]
