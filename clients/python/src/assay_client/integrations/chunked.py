"""Early stopping with engines that return whole responses: they sample a few tokens at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from .. import AsyncClient, Options
from ._base import prompt_text, shared_async_client
from .early_stopping import Rollout, Step, TokenDecoder, When, end_of_sequence, follow, violation

# Names of the limit of new tokens in the sampling parameters of vLLM and SGLang.
_LIMITS = ("max_tokens", "max_new_tokens")


class EarlyStoppingServer:
    """A server manager of verl that requests a response in pieces of `chunk` tokens.

    `generate` has the arguments and the result of verl's `LLMServerClient`;
    everything else is passed on to it. `limit` is the maximum of new tokens
    where the sampling parameters have none. `eos_token_ids` end a response
    (default: that of the tokenizer), and so do the `stop_token_ids` of the
    sampling parameters.
    """

    def __init__(
        self,
        server: Any,
        tokenizer: Any,
        limit: int,
        *,
        chunk: int = 64,
        client: AsyncClient | None = None,
        options: Options | None = None,
        model: str | None = None,
        when: When = violation,
        eos_token_ids: int | Collection[int] | None = None,
    ) -> None:
        self._server = server
        self._tokenizer = tokenizer
        self._limit = limit
        self._chunk = chunk
        self._eos = end_of_sequence(tokenizer, eos_token_ids)
        self._client = client
        self._settings: dict[str, Any] = {"options": options, "model": model, "when": when}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def generate(
        self, request_id: Any, *, prompt_ids: Sequence[int], sampling_params: dict[str, Any], **kwargs: Any
    ) -> Any:
        outputs: list[Any] = []
        steps = self._steps(outputs, request_id, list(prompt_ids), sampling_params, kwargs)
        rollout = await follow(
            steps,
            self._client or shared_async_client(),
            abort=steps.aclose,
            prompt=prompt_text(self._tokenizer.decode(prompt_ids)),
            **self._settings,
        )
        return _merged(outputs[-1], rollout, len(prompt_ids))

    async def _steps(
        self,
        outputs: list[Any],
        request_id: Any,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> Any:
        decoder = TokenDecoder(self._tokenizer)
        name = next((n for n in _LIMITS if n in sampling_params), _LIMITS[0])
        left = int(sampling_params.get(name) or self._limit)
        ends = self._eos.union(sampling_params.get("stop_token_ids") or ())
        sampled: list[int] = []
        while left > 0:
            size = min(self._chunk, left)
            output = await self._server.generate(
                request_id,
                prompt_ids=prompt_ids + sampled,
                sampling_params={**sampling_params, name: size},
                **kwargs,
            )
            outputs.append(output)
            ids = list(output.token_ids)
            sampled += ids
            left -= len(ids)
            last = len(ids) < size or left <= 0 or ids[-1] in ends or output.stop_reason == "aborted"
            for k, id in enumerate(ids):
                log_probs = output.log_probs[k : k + 1] if output.log_probs else None
                reason = output.stop_reason if last and k == len(ids) - 1 else None
                yield Step(decoder.push(id), [id], log_probs, reason)
            if last:
                return


def _merged(output: Any, rollout: Rollout, prompt: int) -> Any:
    """The output of the last request, as that of one request for the whole response."""
    merged = output.model_copy()
    merged.token_ids, merged.log_probs = rollout.token_ids, rollout.log_probs
    extra = {"finish_reason": rollout.finish_reason, "assay_reward": rollout.reward}
    merged.extra_fields = {**output.extra_fields, **extra}
    if output.routed_experts is not None:  # of the prompt and the response
        merged.routed_experts = output.routed_experts[: prompt + len(rollout.token_ids)]
    return merged
