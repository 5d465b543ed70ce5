"""The command line: `python -m assay_client score|feedback`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from ._errors import AssayError, BadRequestError, InputError
from ._offline import Progress, Settings, UsageError, read_jsonl, score_jsonl
from ._sync.client import Client
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
    except (UsageError, InputError, BadRequestError, OSError, ValueError) as e:
        return _fail(e, 2)
    except AssayError as e:
        return _fail(e, 1)
    except KeyboardInterrupt:
        return 130


def _fail(error: Exception, code: int) -> int:
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
            raise UsageError("--dense requires JSONL input, whose items may have token_offsets")
        failed = _score_parquet(client, args, options)
    else:
        for name, column in _columns(args).items():
            if column is not None:
                raise UsageError(f"--{name.replace('_', '-')} requires Parquet input (*.parquet)")
        settings = Settings(options, args.model, args.text, args.on_error == "null")
        failed = score_jsonl(client, args.file, args.output, settings, args.restart)
    if failed:
        return _fail(AssayError(f"{failed} responses could not be scored: their reward is null"), 1)
    return 0


def _score_parquet(client: Client, args: argparse.Namespace, options: Options) -> int:
    try:
        from .parquet import Columns, score_parquet
    except ModuleNotFoundError as e:
        raise UsageError(f"{e}: install pyarrow to read Parquet files") from e
    if not str(args.output).endswith(".parquet"):
        raise UsageError("-o: Parquet input requires Parquet output; use -o NAME.parquet")
    if args.text or args.no_instances:
        raise UsageError("--text and --no-instances require JSONL input")
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
        batch = []
        for item in read_jsonl(stream, False):
            batch.append(item)
            if len(batch) == 500:
                total = _send(client, batch, total, progress)
                batch = []
        if batch:
            total = _send(client, batch, total, progress)
    progress.finish()
    for r in total.rejected:
        print(f"item {r.index} ({r.id}): {r.code}: {r.message}", file=sys.stderr)
    rejected = [vars(r) for r in total.rejected]
    print(json.dumps({"accepted": total.accepted, "duplicates": total.duplicates, "rejected": rejected}))
    return 2 if rejected else 0


def _send(client: Client, batch: list[dict[str, object]], total: Receipt, progress: Progress) -> Receipt:
    receipt = client.feedback(batch)
    first = progress.done
    progress.add(len(batch))
    rejected = tuple(Rejection(first + r.index, r.id, r.code, r.message) for r in receipt.rejected)
    return Receipt(
        total.accepted + receipt.accepted, total.duplicates + receipt.duplicates, total.rejected + rejected
    )


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("file", nargs="?", help="JSONL file (default: standard input)")
    common.add_argument("--url", help="URL of the service (default: $ASSAY_URL, else http://127.0.0.1:8080)")
    common.add_argument("--token", help="token of the service (default: $ASSAY_TOKEN)")
    common.add_argument(
        "--data-dir",
        help="data directory with the token of a private service on this machine (default: $ASSAY_DATA_DIR)",
    )
    common.add_argument(
        "--timeout", type=float, default=60.0, help="timeout of one attempt in seconds (default: 60)"
    )
    common.add_argument(
        "--retry", type=float, default=300.0, help="how long to retry in seconds (default: 300)"
    )
    common.add_argument("--concurrency", type=int, default=4, help="maximum requests in flight (default: 4)")

    parser = argparse.ArgumentParser(prog="python -m assay_client", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    c = commands.add_parser(
        "score", parents=[common], help="score responses: JSONL to JSONL, or Parquet to Parquet"
    )
    c.add_argument(
        "-o", "--output", help="output file, resumed if it is incomplete (default: standard output)"
    )
    c.add_argument("--restart", action="store_true", help="start over instead of resuming an earlier run")
    c.add_argument("--text", action="store_true", help="each line is a response, also an empty one, not JSON")
    c.add_argument("--model", help="model version or name (default: the one that serves at the start)")
    c.add_argument(
        "--on-error",
        choices=("stop", "null"),
        default="stop",
        help="on a response that cannot be scored: stop, or write a null reward (default: stop)",
    )
    c.add_argument("--reward", choices=("compliance", "logit", "raw"), help="scale of the reward")
    c.add_argument(
        "--aggregate", choices=("max", "topk", "noisy_or", "mean"), help="aggregate of the instances"
    )
    c.add_argument("--top-k", type=int, help="number of instances that --aggregate topk averages")
    c.add_argument("--offset-unit", choices=("codepoint", "utf8", "utf16"), help="unit of offsets")
    c.add_argument("--no-instances", action="store_true", help="omit the instances from the results")
    c.add_argument(
        "--reasoning", choices=("skip", "score", "skip_opened"), help="whether to score <think> blocks"
    )
    c.add_argument(
        "--dense", choices=("last", "instance", "witness", "shaped"), help="assign token-level rewards"
    )
    c.add_argument("--gamma", type=float, help="discount of --dense shaped (default: 1)")
    c.add_argument("--tokenizer", help="tokenize with this tokenizer of the service instead of token_offsets")
    p = c.add_argument_group("Parquet", "score FILE.parquet -o NAME.parquet adds the rewards as columns")
    p.add_argument("--response-column", help="strings or chat messages (default: response, else completion)")
    p.add_argument("--messages-column", help="chat messages, of which the assistant's are scored")
    p.add_argument(
        "--prompt-column", help='strings or chat messages (default: prompt if it exists; "": none)'
    )
    p.add_argument("--id-column", help="ids of the responses, for later feedback")
    p.add_argument("--prefix", help="prefix of the names of the added columns")
    c.set_defaults(run=_score)

    c = commands.add_parser("feedback", parents=[common], help="send labeled responses (JSONL)")
    c.set_defaults(run=_feedback)
    return parser


if __name__ == "__main__":
    sys.exit(main())
