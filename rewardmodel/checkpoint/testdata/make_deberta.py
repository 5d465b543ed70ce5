"""Makes the tiny random DeBERTa checkpoints of this folder, as make_goldens.py does the others.

    python make_deberta.py

Sequences of up to 22 tokens reach beyond the buckets and the farthest relative
position of each, so that both kinds of limit are seen.
"""

import json
import os

import torch
import transformers as hf

from make_goldens import NAMED, REVERSED, make

SHAPE = dict(
    vocab_size=96, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
    max_position_embeddings=22, relative_attention=True, pos_att_type=["p2c", "c2p"], attn_implementation="eager",
)


def config(**over):
    return hf.DebertaV2Config(**{**SHAPE, **over})


def official(out):
    """As Microsoft publishes v3: no architectures, the kinds of attention as text."""
    path = os.path.join(out, "config.json")
    with open(path) as f:
        text = json.load(f)
    del text["architectures"]
    text.update(pos_att_type="p2c|c2p", position_buckets=8)
    with open(path, "w") as f:
        json.dump(text, f, indent=2)
        f.write("\n")


def main():
    C = hf.DebertaV2ForSequenceClassification
    v3 = dict(position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True, position_biased_input=False)
    make("deberta-v3", C, config(**v3, id2label=NAMED), 21, edit=official)
    make("deberta-v2", C, config(
        id2label=REVERSED, type_vocab_size=2, max_relative_positions=6, layer_norm_eps=1e-5), 22)
    make("deberta-c2p", C, config(
        num_labels=1, pos_att_type=["c2p"], position_buckets=6, norm_rel_ebd="layer_norm", hidden_act="gelu_new",
        pooler_hidden_act="tanh"), 23)
    make("deberta-p2c", C, config(
        pos_att_type="p2c", position_buckets=0, position_biased_input=False, pooler_hidden_act="relu", cls_dropout=0.2), 24)
    make("deberta-shared-c2p", C, config(pos_att_type=["c2p"], share_att_key=True, max_relative_positions=9), 25)
    make("deberta-shared-p2c", C, config(pos_att_type=["p2c"], share_att_key=True, position_buckets=13), 26, dtype=torch.bfloat16)
    make("deberta-content", C, config(relative_attention=False), 27)
    make("deberta-mlm", hf.DebertaV2ForMaskedLM, config(**v3, legacy=False), 28)
    make("deberta-model", hf.DebertaV2Model, config(position_buckets=4, num_hidden_layers=3), 29)


if __name__ == "__main__":
    main()
