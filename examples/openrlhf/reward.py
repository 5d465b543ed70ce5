"""For `--reward.remote_url examples/openrlhf/reward.py`: waits for a service that restarts."""

from assay_client.integrations.openrlhf import reward_func

__all__ = ["reward_func"]
