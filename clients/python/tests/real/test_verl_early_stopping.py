"""verl's own agent loop with early stopping, against a scripted server of live sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from live_server import LiveServer, live_server

__all__ = ["live_server"]

WHY = "pip install --no-deps verl, and torch, tensordict, ray"
pytest.importorskip("verl", reason=WHY)
tokenizers = pytest.importorskip("tokenizers", reason=WHY)
transformers = pytest.importorskip("transformers", reason=WHY)

pytestmark = pytest.mark.filterwarnings("ignore")  # of verl and its dependencies

RUDE = "Hello there. You are an idiot. And so on, at length. " * 20
POLITE = "Hello there. Drink water."
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer_of_bytes() -> Any:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    special = ["<|im_start|>", "<|im_end|>"]
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.add_special_tokens(special)
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    made.chat_template = TEMPLATE
    return made


class Manager:
    """The engine behind verl's server manager: it samples the tokens of a text."""

    def __init__(self, ids: list[int]) -> None:
        self.ids, self.prompt, self.sampled = ids, 0, 0

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        assert request_id
        self.prompt = self.prompt or len(prompt_ids)
        await asyncio.sleep(0.01)
        done = len(prompt_ids) - self.prompt
        ids = self.ids[done : done + sampling_params["max_tokens"]]
        self.sampled += len(ids)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed")


@pytest.mark.parametrize(
    ("text", "kept", "reason"),
    [(RUDE, "Hello there. You are an idiot.", "content_filter"), (POLITE, POLITE, "completed")],
)
def test_single_turn(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, text: str, kept: str, reason: str
) -> None:
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap

    from assay_client.integrations import _base
    from assay_client.integrations.verl_early_stopping import AssaySingleTurnAgentLoop

    monkeypatch.setenv("ASSAY_URL", live_server.url)
    _base.shared_async_client.cache_clear()
    tokenizer = tokenizer_of_bytes()
    manager = Manager([*tokenizer.encode(text), tokenizer.eos_token_id])
    rollout = {"prompt_length": 512, "response_length": 1024, "full_determinism": False}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})

    async def run() -> Any:
        loop = AssaySingleTurnAgentLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=manager,
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=None,
            data_config=DictConfigWrap(OmegaConf.create({})),
        )
        loop.process_multi_modal_info = no_images
        return await loop.run({"temperature": 1.0}, raw_prompt=[{"role": "user", "content": "Hi?"}])

    async def no_images(_: Any) -> dict[str, Any]:
        return {}

    output = asyncio.run(run())
    assert tokenizer.decode(output.response_ids, skip_special_tokens=True).rstrip() == kept
    assert output.extra_fields["finish_reason"] == reason
    assert output.response_mask[: len(kept)] == [1] * len(kept)
    assert output.response_logprobs[: len(kept)] == [-0.5] * len(kept)
    assert live_server.opened[0]["prompt"] == "Hi?"
    if reason == "content_filter":
        assert manager.sampled < len(text) / 2
        assert sum(output.response_mask) == len(kept)
