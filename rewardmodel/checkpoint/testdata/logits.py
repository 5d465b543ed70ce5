"""Prints what transformers computes from checkpoint folders, as JSON.

    python logits.py FOLDER...   < {"FOLDER": [[id, ...], ...], ...}

For each folder: the class that AutoModelForSequenceClassification chose, the
names that did not match, its labels, the type of its weights as stored, and
the logits of each sequence, computed in float32. Used by TestTransformersLoads
with the versions that make_goldens.py names.
"""

import json
import sys

import torch
import transformers as hf

torch.set_num_threads(1)
hf.utils.logging.disable_progress_bar()
result = {}
for folder, rows in json.load(sys.stdin).items():
    stored = hf.AutoModelForSequenceClassification.from_pretrained(folder, dtype="auto").dtype
    model, info = hf.AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    model.eval()
    with torch.no_grad():
        logits = [model(input_ids=torch.tensor([r])).logits[0].tolist() for r in rows]
    result[folder] = {
        "class": type(model).__name__,
        "unmatched": sorted(map(str, [*info["missing_keys"], *info["unexpected_keys"], *info["mismatched_keys"]])),
        "labels": [model.config.id2label[i] for i in range(model.config.num_labels)],
        "dtype": str(stored),
        "logits": logits,
    }
json.dump(result, sys.stdout)
