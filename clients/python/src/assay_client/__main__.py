"""The command line: `python -m assay_client score|feedback`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from ._errors import AssayError, InputError, InvalidRequestError
from ._lines import Progress, Settings, UsageError, items, score
from ._sync import Client
from ._types import Options, Receipt, Rejection
from ._version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if args.data_dir:
        os.environ["ASSAY_DATA_DIR"] = args.data_dir
    try:
        with Client(
            args.url, token=args.token, timeout=args.timeout, retry=args.retry, concurrency=args.concurrency
        ) as client:
            code: int = args.run(client, args)
            return code
    except (UsageError, InputError, InvalidRequestError, OSError, ValueError) as e:
        return _say(e, 2)
    except AssayError as e:
        return _say(e, 1)
    except KeyboardInterrupt:
        return 130


def _say(error: Exception, code: int) -> int:
    print(f"assay_client: {error}", file=sys.stderr)
    return code


def _score(client: Client, args: argparse.Namespace) -> int:
    options = Options(
        reward=args.reward,
        aggregate=args.aggregate,
        top_k=args.top_k,
        offset_unit=args.offset_unit,
        instances=False if args.no_instances else None,
        reasoning=args.reasoning,
        dense=args.dense,
        gamma=args.gamma,
        tokenizer=args.tokenizer,
    )
    if str(args.file).endswith(".parquet"):
        if args.dense:
            raise UsageError("--dense is for JSONL files, whose items may have token_offsets")
        failed = _score_parquet(client, args, options)
    else:
        for name, column in _columns(args).items():
            if column is not None:
                raise UsageError(f"--{name.replace('_', '-')} is for Parquet files (*.parquet)")
        settings = Settings(options, args.model, args.text, args.on_error == "null")
        failed = score(client, args.file, args.output, settings, args.restart)
    if failed:
        return _say(AssayError(f"{failed} responses could not be scored; their reward is null"), 1)
    return 0


def _score_parquet(client: Client, args: argparse.Namespace, options: Options) -> int:
    try:
        from .parquet import Columns, score_parquet
    except ModuleNotFoundError as e:
        raise UsageError(f"{e}; Parquet files need pyarrow: pip install pyarrow") from e
    if not str(args.output).endswith(".parquet"):
        raise UsageError("-o: a Parquet file becomes a Parquet file; give -o NAME.parquet")
    if args.text or args.no_instances:
        raise UsageError("--text and --no-instances are for JSONL; leave them out")
    named = {
        name.replace("_column", ""): column for name, column in _columns(args).items() if column is not None
    }
    return score_parquet(
        args.file,
        args.output,
        client=client,
        columns=Columns(**named),
        options=options,
        model=args.model,
        null=args.on_error == "null",
        restart=args.restart,
        progress=sys.stderr,
    )


def _columns(args: argparse.Namespace) -> dict[str, str | None]:
    names = ("response_column", "messages_column", "prompt_column", "id_column", "prefix")
    return {name: getattr(args, name) for name in names}


def _feedback(client: Client, args: argparse.Namespace) -> int:
    progress = Progress("labels", None, sys.stderr)
    total = Receipt()
    with sys.stdin.buffer if args.file in (None, "-") else open(args.file, "rb") as stream:
        held = []
        for item in items(stream, False):
            held.append(item)
            if len(held) == 500:
                total = _send(client, held, total, progress)
                held = []
        if held:
            total = _send(client, held, total, progress)
    progress.finish()
    for r in total.rejected:
        print(f"item {r.index} ({r.id}): {r.code}: {r.message}", file=sys.stderr)
    rejected = [vars(r) for r in total.rejected]
    print(json.dumps({"accepted": total.accepted, "duplicates": total.duplicates, "rejected": rejected}))
    return 2 if rejected else 0


def _send(client: Client, held: list[dict[str, object]], total: Receipt, progress: Progress) -> Receipt:
    receipt = client.feedback(held)
    first = progress.done
    progress.add(len(held))
    rejected = tuple(Rejection(first + r.index, r.id, r.code, r.message) for r in receipt.rejected)
    return Receipt(
        total.accepted + receipt.accepted, total.duplicates + receipt.duplicates, total.rejected + rejected
    )


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("file", nargs="?", help="JSONL file; without one, or with -, standard input")
    common.add_argument("--url", help="the service ($ASSAY_URL, else http://127.0.0.1:8080)")
    common.add_argument("--token", help="token for it ($ASSAY_TOKEN)")
    common.add_argument(
        "--data-dir",
        help="data directory of a private service on this machine, for its token ($ASSAY_DATA_DIR)",
    )
    common.add_argument("--timeout", type=float, default=60.0, help="seconds that one attempt may take (60)")
    common.add_argument("--retry", type=float, default=300.0, help="seconds to go on trying (300)")
    common.add_argument("--concurrency", type=int, default=4, help="requests under way at once (4)")

    parser = argparse.ArgumentParser(prog="python -m assay_client", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    c = commands.add_parser(
        "score", parents=[common], help="score responses: JSONL to JSONL, or Parquet to Parquet"
    )
    c.add_argument(
        "-o", "--output", help="write here, and go on with what an earlier run left (standard output)"
    )
    c.add_argument("--restart", action="store_true", help="do not go on with what an earlier run left")
    c.add_argument("--text", action="store_true", help="each line is a response, not JSON")
    c.add_argument("--model", help="score with this version or name (the one that serves at the start)")
    c.add_argument(
        "--on-error", choices=("stop", "null"), default="stop", help="null: go on with a null reward"
    )
    c.add_argument("--reward", choices=("compliance", "logit", "raw"))
    c.add_argument("--aggregate", choices=("max", "topk", "noisy_or", "mean"))
    c.add_argument("--top-k", type=int)
    c.add_argument("--offset-unit", choices=("codepoint", "utf8", "utf16"))
    c.add_argument("--no-instances", action="store_true", help="leave the instances out of the results")
    c.add_argument("--reasoning", choices=("skip", "score"), help="whether <think> blocks are scored")
    c.add_argument(
        "--dense", choices=("last", "instance", "witness", "shaped"), help="a reward for each token"
    )
    c.add_argument("--gamma", type=float, help="discount of --dense shaped (1)")
    c.add_argument("--tokenizer", help="tokens are those of this tokenizer of the service, not token_offsets")
    p = c.add_argument_group("Parquet", "FILE.parquet -o NAME.parquet: its columns, and those of the rewards")
    p.add_argument("--response-column", help="strings or chat messages (response, else completion)")
    p.add_argument("--messages-column", help="chat messages, of which those of the assistant are scored")
    p.add_argument("--prompt-column", help='strings or chat messages (prompt, where there is one; "": none)')
    p.add_argument("--id-column", help="ids of the responses, for feedback")
    p.add_argument("--prefix", help="begins the names of the columns that are added")
    c.set_defaults(run=_score)

    c = commands.add_parser("feedback", parents=[common], help="send labelled responses (JSONL)")
    c.set_defaults(run=_feedback)
    return parser


if __name__ == "__main__":
    sys.exit(main())
