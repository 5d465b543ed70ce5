"""vLLM: a rollout of an `AsyncLLM` engine that is aborted when it violates the policy.

    from assay_client.integrations.vllm import generate

    rollout = await generate(engine, prompt, sampling_params, request_id, context="How do I ...?")
    rollout.token_ids, rollout.reward, rollout.finish_reason

Follows vLLM 0.11 and later: `AsyncLLM.generate(prompt, sampling_params, request_id, ...)`
yields outputs with `text`, `token_ids`, `logprobs` and `finish_reason`, cumulative
or (`RequestOutputKind.DELTA`) new ones, and `AsyncLLM.abort(request_id)` ends a
request. One sequence per request (`n=1`), with detokenization.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .. import AsyncClient, Options
from ._base import shared_async_client
from .early_stopping import Rollout, Step, When, follow, violation


async def generate(
    engine: Any,
    prompt: Any,
    sampling_params: Any,
    request_id: str,
    *,
    client: AsyncClient | None = None,
    context: str | None = None,
    options: Options | None = None,
    model: str | None = None,
    when: When = violation,
    **kwargs: Any,
) -> Rollout:
    """Samples one response. `context` is the prompt as text, for models trained with it.

    `kwargs` are arguments of the engine, such as `lora_request`.
    """

    async def abort() -> None:
        await engine.abort(request_id)

    outputs = engine.generate(prompt, sampling_params, request_id, **kwargs)
    return await follow(
        _steps(outputs, sampling_params),
        client or shared_async_client(),
        abort=abort,
        prompt=context,
        options=options,
        model=model,
        when=when,
    )


async def _steps(outputs: AsyncIterator[Any], sampling_params: Any) -> AsyncIterator[Step]:
    # The kind is an enumeration: CUMULATIVE, DELTA or FINAL_ONLY.
    delta = getattr(getattr(sampling_params, "output_kind", None), "name", "") == "DELTA"
    characters = tokens = 0
    async for output in outputs:
        sequence = output.outputs[0]
        text, ids = sequence.text, list(sequence.token_ids)
        logprobs = [chosen[id].logprob for id, chosen in zip(ids, sequence.logprobs or ())]
        if not delta:
            text, ids, logprobs = text[characters:], ids[tokens:], logprobs[tokens:]
        characters, tokens = characters + len(text), tokens + len(ids)
        yield Step(text, ids, logprobs or None, sequence.finish_reason)
