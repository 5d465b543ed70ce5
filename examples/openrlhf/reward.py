"""For `--reward.remote_url examples/openrlhf/reward.py`: retries while the service restarts."""

from assay_client.integrations.openrlhf import reward_func

__all__ = ["reward_func"]
