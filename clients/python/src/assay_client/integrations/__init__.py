"""Reward functions for trainers, one module per trainer.

By default they use the service at $ASSAY_URL with the token $ASSAY_TOKEN. A
failure raises once the retries are exhausted: none of them makes up a reward.
"""
