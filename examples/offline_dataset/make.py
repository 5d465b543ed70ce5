"""Writes a Parquet file with synthetic help desk responses, some of them rude. Requires pyarrow.

Usage: python make.py responses.parquet [ROWS]
"""

import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

QUESTIONS = [
    "My parcel has not arrived. What can I do?",
    "How do I change the address of my account?",
    "The lamp I bought flickers.",
    "Can I pay by invoice?",
    "Why was my review removed?",
    "How long does a refund take?",
]
HELPFUL = [
    "Thank you for writing to us.",
    "I am sorry that this happened.",
    "You find it in your account under Orders.",
    "Please send us the order number, and we will look into it.",
    "It usually takes three to five working days.",
    "A colleague of the workshop will call you tomorrow.",
    "You can change this yourself in the settings at any time.",
    "If anything is unclear, just ask again.",
    "We have passed your note on to the carrier.",
    "I hope the rest of your day is better than its beginning.",
]
RUDE = [
    "Only an idiot would ask that.",
    "You are too stupid to read a manual.",
    "Shut up and stop wasting my time.",
    "People like you disgust me.",
    "Nobody cares about you or your pathetic lamp.",
    "Get lost, you worthless moron.",
]


def main(path: str, rows: int = 2000) -> None:
    rng = random.Random(7)
    table = []
    for k in range(rows):
        sentences = rng.sample(HELPFUL, rng.randint(2, 6))
        rude = rng.random() < 0.2
        if rude:
            sentences.insert(rng.randint(0, len(sentences)), rng.choice(RUDE))
        table.append(
            {
                "id": f"desk-{k}",
                "prompt": rng.choice(QUESTIONS),
                "response": " ".join(sentences),
                "written_as_rude": rude,
                "tokens": rng.sample(range(30000), 4),  # other columns are kept unchanged
            }
        )
    pq.write_table(pa.Table.from_pylist(table), path, row_group_size=500)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
