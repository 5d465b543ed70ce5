"""Makes the tiny random ModernBERT checkpoints of this folder and their golden outputs.

    python make_modernbert.py

As make_goldens.py, which names the versions. The windows of local attention are shorter than most sequences.
"""

import json
import os

import torch
import transformers as hf

import make_goldens
from make_goldens import NAMED, REVERSED, make

SHAPE = dict(
    vocab_size=96, hidden_size=16, num_hidden_layers=4, num_attention_heads=4, intermediate_size=24,
    max_position_embeddings=22, pad_token_id=0, bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3,
    local_attention=6, attn_implementation="eager",
)
THETAS = dict(global_rope_theta=700.0, local_rope_theta=30.0)


def config(**over):
    return hf.ModernBertConfig(**{**SHAPE, **over})


def older(out):
    """As transformers 4 stored it, with a field of the Ettin encoders."""
    path = os.path.join(out, "config.json")
    with open(path) as f:
        text = json.load(f)
    del text["layer_types"], text["rope_parameters"]
    text.update(global_attn_every_n_layers=2, **THETAS, position_embedding_type="sans_pos", layer_norm_eps=1e-3)
    with open(path, "w") as f:
        json.dump(text, f, indent=2)
        f.write("\n")


def main():
    C = hf.ModernBertForSequenceClassification
    make("modernbert-two", C, config(id2label=NAMED), 41)
    make("modernbert-mean", C, config(
        id2label=REVERSED, classifier_pooling="mean", attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True,
        hidden_activation="gelu_new", classifier_activation="tanh", local_attention=7, **THETAS, num_hidden_layers=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], norm_eps=1e-3), 42)
    make("modernbert-one", C, config(
        num_labels=1, global_attn_every_n_layers=2, norm_bias=True, hidden_activation="relu", local_attention=9), 43)
    make("modernbert-bf16", C, config(id2label=NAMED, attention_bias=True, local_attention=1, **THETAS), 44, dtype=torch.bfloat16)
    make("modernbert-mlm", hf.ModernBertForMaskedLM, config(
        global_attn_every_n_layers=2, mlp_bias=True, num_hidden_layers=2, **THETAS), 45, edit=older)
    make("modernbert-model", hf.ModernBertModel, config(classifier_pooling="mean", num_hidden_layers=2), 46)
    make_goldens.LENGTHS = (3, 17, 40, 64, 90)
    make("modernbert-wide", C, config(
        id2label=NAMED, hidden_size=48, num_attention_heads=3, intermediate_size=40, num_hidden_layers=3, classifier_pooling="mean",
        max_position_embeddings=90, local_attention=33, classifier_bias=True), 47)


if __name__ == "__main__":
    main()
