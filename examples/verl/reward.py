"""For `reward.custom_reward_function.path`: verl awaits it for each sample."""

from assay_client.integrations.verl import compute_score

__all__ = ["compute_score"]
