#!/usr/bin/env bash
# Trains a 0.5B policy with verl (GRPO) on one GPU, with assay's reward.
set -euo pipefail
export ASSAY_URL=${ASSAY_URL:-http://127.0.0.1:8080}
here=$(cd "$(dirname "$0")" && pwd)

curl -fsS "$ASSAY_URL/readyz" > /dev/null # fail now rather than after the first rollout

python3 -m verl.trainer.main_ppo \
	reward.custom_reward_function.path="$here/reward.py" \
	reward.custom_reward_function.name=compute_score \
	+reward.custom_reward_function.reward_kwargs.reward=compliance \
	reward.reward_manager.name=naive \
	algorithm.adv_estimator=grpo \
	data.train_files=train.parquet \
	data.val_files=val.parquet \
	data.train_batch_size=128 \
	data.max_prompt_length=512 \
	data.max_response_length=512 \
	actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct \
	actor_rollout_ref.rollout.name=vllm \
	actor_rollout_ref.rollout.n=8 \
	actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
	actor_rollout_ref.actor.ppo_mini_batch_size=64 \
	actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
	trainer.n_gpus_per_node=1 \
	trainer.nnodes=1
