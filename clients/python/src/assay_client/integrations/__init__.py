"""Reward functions in the shape of each trainer, one module a trainer.

All ask the service at $ASSAY_URL with the token $ASSAY_TOKEN, unless they are
made with a client of one's own. None returns a reward that the service did
not give: a failure raises, once the client has tried long enough.
"""
