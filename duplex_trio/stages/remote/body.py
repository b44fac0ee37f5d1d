"""The JSON of one request: a prompt and its `GenerationParams`, in the fields that an engine takes.

There are two flavors. `vllm` is vLLM's own server and what stands before it: it takes every parameter that vLLM has.
`openai` is any other engine: it is told only what OpenAI's API knows, so that none refuses a field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.stages.remote.messages import request_messages, request_tools
from duplex_trio.stages.units import ChatPrompt, GenerationParams
from duplex_trio.stages.worker import UnitRefused

SAMPLING = ("temperature", "top_p", "seed")
ONLY_VLLM = ("top_k", "repetition_penalty")
EXTRA_OF_OPENAI = frozenset({"presence_penalty", "frequency_penalty", "logit_bias"})
RESERVED = frozenset({"model", "messages", "stream", "stream_options", "n", "tools", "tool_choice"})
"""Fields that this stage itself depends on."""


def request_body(remote: RemoteDeploy, model: str, prompt: ChatPrompt, params: Any) -> dict[str, Any]:
    """What is posted for one answer.

    Args:
        remote: the engine.
        model: what it calls the model.
        prompt: the conversation.
        params: the request's `GenerationParams`, or None. Their `extra` are further parameters of vLLM by name, of
            which `structured_outputs` (`json` for every engine; `structural_tag`, `regex`, ... for vLLM) holds the
            answer to a form.

    Raises:
        UnitRefused: `invalid_value`, a parameter that cannot be sent, or has the wrong type.
    """
    given = params if params is not None else GenerationParams()
    if not isinstance(given, GenerationParams):
        raise UnitRefused("invalid_value", f"params must be GenerationParams, is {type(given).__name__}")
    if reserved := RESERVED & given.extra.keys():
        raise UnitRefused("invalid_value", f"{min(reserved)} cannot be set for a request")
    vllm = remote.flavor == "vllm"
    body: dict[str, Any] = {
        "model": model,
        "messages": request_messages(prompt),
        "stream": True,
        # With vLLM each piece tells the counts so far: an answer that is broken off was counted too.
        "stream_options": {"include_usage": True} | ({"continuous_usage_stats": True} if vllm else {}),
    }
    for name in SAMPLING + (ONLY_VLLM if vllm else ()):
        _put(body, name, getattr(given, name))
    _put(body, "max_tokens" if vllm else "max_completion_tokens", given.max_tokens)
    if given.stop:
        body["stop"] = list(given.stop)
    if given.ignore_eos and vllm:
        body["ignore_eos"] = True
    if prompt.tools:
        body["tools"] = request_tools(prompt)
        body["tool_choice"] = "auto"
    extra = dict(given.extra)
    form = extra.pop("structured_outputs", None)
    if form is not None:
        body |= _form(form, vllm=vllm)
    body |= {name: value for name, value in extra.items() if vllm or name in EXTRA_OF_OPENAI}
    return body | dict(remote.extra_body)


def _put(body: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnitRefused("invalid_value", f"{name} must be a number, is {value!r}")
    body[name] = value


def _form(form: Any, *, vllm: bool) -> Mapping[str, Any]:
    if not isinstance(form, Mapping):
        raise UnitRefused("invalid_value", f"structured_outputs must be a mapping, is {form!r}")
    if vllm:
        return {"structured_outputs": dict(form)}
    if form.keys() != {"json"}:
        raise UnitRefused("invalid_value", f"this engine takes a JSON schema only, not {', '.join(form)}")
    described = {"name": "answer", "schema": form["json"]}
    return {"response_format": {"type": "json_schema", "json_schema": described}}
