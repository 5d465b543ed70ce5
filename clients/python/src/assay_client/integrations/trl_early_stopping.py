"""TRL: a `GRPOTrainer` that stops completions which violate the policy.

    from assay_client.integrations.trl import AssayReward
    from assay_client.integrations.trl_early_stopping import EarlyStoppingGRPOTrainer

    trainer = EarlyStoppingGRPOTrainer(
        model=..., reward_funcs=[AssayReward(client)], args=..., live_client=client
    )

Follows TRL 1.16 (`_generate_single_turn`), which passes no stopping criteria to
`generate`. Only generation with transformers stops early: TRL waits for whole
batches of vLLM and of continuous batching. A stopped completion has no
end-of-sequence token: TRL counts it in `completions/clipped_ratio`, and
`mask_truncated_completions` would drop it, which this trainer refuses. Logs
`assay/stopped`, the fraction of stopped completions, and the column
`finish_reason` of the table of completions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trl import GRPOTrainer

from .. import Client, Options
from ._base import Completion, prompt_text
from .early_stopping import When, violation
from .transformers import AssayStoppingCriteria, Outcome


class EarlyStoppingGRPOTrainer(GRPOTrainer):
    """`GRPOTrainer` with the verdicts of `live_client` while it generates."""

    def __init__(
        self,
        *args: Any,
        live_client: Client | None = None,
        live_options: Options | None = None,
        live_model: str | None = None,
        when: When = violation,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if self.use_vllm or self.use_transformers_continuous_batching:
            raise ValueError("early stopping needs generation with transformers, without continuous batching")
        if self.mask_truncated_completions:
            raise ValueError("mask_truncated_completions would ignore the completions that were stopped")
        self._live: dict[str, Any] = {
            "client": live_client,
            "options": live_options,
            "model": live_model,
            "when": when,
        }
        self._live_prompts: list[str] = []
        self._live_outcomes: list[Outcome] = []

    def _generate(self, prompts: Sequence[Completion]) -> Any:
        self._live_prompts = [prompt_text(prompt) for prompt in prompts]
        return super()._generate(prompts)

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        # With tools, later turns have fewer prompts than the batch.
        prompts = self._live_prompts if len(self._live_prompts) == len(prompt_ids) else None
        model = self.accelerator.unwrap_model(self.model_wrapped)
        generate = model.generate
        with AssayStoppingCriteria(
            self._tokenizer, prompts=prompts, eos_token_ids=self.eos_token_ids, **self._live
        ) as criteria:
            model.generate = lambda *a, **k: generate(*a, stopping_criteria=[criteria], **k)
            try:
                completion_ids, logprobs = super()._generate_single_turn(prompt_ids, *args, **kwargs)
            finally:
                del model.generate
            self._live_outcomes = criteria.finish(rewards=False)  # the reward functions score them
        mode = "train" if self.model.training else "eval"
        stopped = [outcome.stopped for outcome in self._live_outcomes]
        self._metrics[mode]["assay/stopped"].append(sum(stopped) / len(stopped))
        return [ids[: outcome.tokens] for ids, outcome in zip(completion_ids, self._live_outcomes)], logprobs

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Any:
        if len(self._live_outcomes) == len(prompts):
            self._log_completion_extra("finish_reason", [o.finish_reason for o in self._live_outcomes])
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
