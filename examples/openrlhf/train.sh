#!/usr/bin/env bash
# Trains a 0.5B policy with OpenRLHF (dr_grpo) on one GPU, with assay's reward.
set -euo pipefail
ASSAY_URL=${ASSAY_URL:-http://127.0.0.1:8080}

curl -fsS "$ASSAY_URL/readyz" > /dev/null # fail now rather than after the first rollout

python3 -m openrlhf.cli.train_ppo_ray \
	--reward.remote_url "$ASSAY_URL/get_reward" \
	--algo.advantage.estimator dr_grpo \
	--algo.dynamic_filtering_enable \
	--algo.dynamic_filtering_range 0.05 0.95 \
	--rollout.n_samples_per_prompt 8 \
	--rollout.batch_size 128 \
	--rollout.micro_batch_size 8 \
	--actor.model_name_or_path Qwen/Qwen2.5-0.5B-Instruct \
	--actor.num_nodes 1 \
	--actor.num_gpus_per_node 1 \
	--ref.num_nodes 1 \
	--ref.num_gpus_per_node 1 \
	--vllm.num_engines 1 \
	--vllm.tensor_parallel_size 1 \
	--vllm.gpu_memory_utilization 0.5 \
	--vllm.enable_sleep \
	--train.colocate_all \
	--ds.enable_sleep \
	--data.prompt_dataset OpenRLHF/prompt-collection-v0.1 \
	--data.input_key context_messages \
	--data.apply_chat_template
