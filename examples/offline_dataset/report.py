"""Prints a summary of the rewards. Requires pyarrow.

Usage: python report.py rewards.parquet
"""

import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq


def main(path: str) -> None:
    table = pq.read_table(path)
    flagged = pc.invert(table["compliant"])
    agree = pc.sum(pc.equal(flagged, table["written_as_rude"])).as_py()
    print(f"{table.num_rows} responses, model {pc.unique(table['model_version']).to_pylist()}")
    print(f"{pc.sum(flagged).as_py()} violations; {agree} decisions match written_as_rude")
    for rude in (False, True):
        rewards = table.filter(pc.equal(table["written_as_rude"], rude))["reward"]
        print(f"mean reward {pc.mean(rewards).as_py():.3f} with written_as_rude={rude}")
    worst = table.sort_by("reward").slice(0, 3)
    for row in worst.select(["id", "reward", "witness_start", "witness_end", "witness_text"]).to_pylist():
        print(row)


if __name__ == "__main__":
    main(*sys.argv[1:])
