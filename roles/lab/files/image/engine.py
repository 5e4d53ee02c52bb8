# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab's image runs for `python3 -m dynamo.vllm`, `dynamo.sglang` and `dynamo.trtllm`.

Reads the recipe's own arguments, finds model, revision and draft offline as the engine would, and exits 1 when anything
is missing. Then it serves: the scripted worker for an aggregated worker, the vendor's mocker for prefill and decode.

Variables of the pod that make it fail:
  LAB_START_DELAY  seconds before anything is looked for or served
  LAB_EXIT         a message: printed, then exit 1 (a crash loop)
  LAB_MODE         ok, plain (no reasoning), empty, length (only reasoning, cut off), raise, partial (fails after three
                   tokens), hang. Aggregated workers only, like the two below
  LAB_TEXT         the answer, in place of the scripted one
  LAB_TOKEN_DELAY  seconds per token
  LAB_NAMESPACE    registers in this Dynamo namespace: ready, and never listed by the frontend
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import yaml

MODES = ("ok", "plain", "empty", "length", "raise", "partial", "hang")


def die(message: str) -> NoReturn:
    print(message, file=sys.stderr, flush=True)
    sys.exit(1)


def parse(argv: list[str]) -> argparse.Namespace:
    """The options that decide what is served, under the names of all three engines; the others are ignored."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model", "--model-path", dest="model", required=True)
    parser.add_argument("--revision")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--max-model-len", "--context-length", "--max-seq-len", dest="context", type=int)
    parser.add_argument("--block-size", "--page-size", "--kv-block-size", dest="block_size", type=int, default=128)
    parser.add_argument("--disaggregation-mode", choices=["agg", "prefill", "decode"], default="agg")
    parser.add_argument("--speculative-config", type=json.loads, default={})
    parser.add_argument("--speculative-draft-model-path")
    parser.add_argument("--speculative-draft-model-revision")
    parser.add_argument("--extra-engine-args", "--config", dest="config")
    parser.add_argument("--dyn-reasoning-parser")
    parser.add_argument("--dyn-tool-call-parser")
    args, _unknown = parser.parse_known_args(argv)
    settings: dict[str, Any] = {}
    if args.config:
        if not os.path.isfile(args.config):
            die(f"FileNotFoundError: [Errno 2] No such file or directory: '{args.config}'")
        settings = yaml.safe_load(Path(args.config).read_text(encoding="utf-8")) or {}
    args.context = args.context or settings.get("max_seq_len") or settings.get("context-length")
    draft = args.speculative_config.get("model") or args.speculative_draft_model_path
    revision = args.speculative_config.get("revision") or args.speculative_draft_model_revision
    args.draft = (draft, revision) if draft else None
    return args


def router_options(argv: list[str]) -> list[str]:
    """The worker's own router options, with their values: it advertises them, and the frontend obeys."""
    result, taking = [], False
    for word in argv:
        taking = word.startswith(("--router-", "--no-router-")) or (taking and not word.startswith("--"))
        if taking:
            result.append(word)
    return result


def check_parsers(args: argparse.Namespace) -> None:
    from dynamo._core import get_reasoning_parser_names, get_tool_parser_names

    for flag, name, known in (
        ("--dyn-reasoning-parser", args.dyn_reasoning_parser, get_reasoning_parser_names()),
        ("--dyn-tool-call-parser", args.dyn_tool_call_parser, get_tool_parser_names()),
    ):
        if name and name not in known:
            die(f"error: argument {flag}: invalid choice: '{name}' (choose from {', '.join(sorted(known))})")


def resolve(model: str, revision: str | None) -> Path:
    """The directory of a model on disk: a folder, or a commit's snapshot in the hub layout of HF_HOME."""
    if os.path.isdir(model):
        return Path(model)
    if model.startswith(("/", ".")) or not re.fullmatch(r"[\w.-]+/[\w.-]+", model):
        die(f"OSError: {model} is neither a local folder nor a valid model identifier")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, local_files_only=True))
    except Exception as error:  # the library has many; each of them ends a real engine too
        cache = os.environ.get("HF_HOME", "")
        die(f"OSError: {model} at revision {revision or 'main'} is not in the cache {cache}: {error}")


def shard_problem(path: Path) -> str:
    """Why a safetensors file cannot be loaded; empty when its header fits its size."""
    if not path.is_file():
        return f"FileNotFoundError: No such file or directory: {path}"
    size = path.stat().st_size
    with path.open("rb") as shard:
        head = shard.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        try:
            header = json.loads(shard.read(length)) if length < size else None
        except ValueError:
            header = None
    if not isinstance(header, dict):
        return f"SafetensorError: Error while deserializing header of {path}"
    end = max((tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"), default=0)
    return "" if 8 + length + end == size else f"SafetensorError: file not fully covered by its header: {path}"


def check_weights(folder: Path, *others: str) -> None:
    for name in ("config.json", *others):
        if not (folder / name).is_file():
            die(f"OSError: {folder} does not appear to have a file named {name}")
    index = folder / "model.safetensors.index.json"
    shards = {"model.safetensors"}
    if index.is_file():
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    for name in sorted(shards):
        problem = shard_problem(folder / name)
        if problem:
            die(problem)
    print(f"loaded {len(shards)} shards from {folder}", flush=True)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # process 1 has no default action
    env = os.environ
    args = parse(sys.argv[1:])
    time.sleep(float(env.get("LAB_START_DELAY", "0")))
    if env.get("LAB_EXIT"):
        die(env["LAB_EXIT"])
    check_parsers(args)
    folder = resolve(args.model, args.revision)
    check_weights(folder, "tokenizer.json")
    if args.draft:
        check_weights(resolve(*args.draft))
    model_config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    context = args.context or model_config["max_position_embeddings"]
    served = args.served_model_name[0] if args.served_model_name else args.model

    if args.disaggregation_mode != "agg":
        # Without a reasoning parser: on the mocker's random words it would leave the content empty.
        command = [sys.executable, "-m", "dynamo.mocker", "--model-path", str(folder), "--model-name", served]
        command += ["--max-model-len", str(context), "--block-size", str(args.block_size), "--speedup-ratio", "1000"]
        command += ["--disaggregation-mode", args.disaggregation_mode, *router_options(sys.argv[1:])]
        os.execv(sys.executable, command)

    from scripted_worker import Options, serve

    mode, suffix = env.get("LAB_MODE", "ok"), env.get("DYN_NAMESPACE_WORKER_SUFFIX")
    if mode not in MODES:
        die(f"LAB_MODE is {mode!r}; allowed: {', '.join(MODES)}")
    serve(
        Options(
            model_path=str(folder),
            served_name=served,
            context=context,
            block_size=args.block_size,
            reasoning_parser=args.dyn_reasoning_parser,
            tool_parser=args.dyn_tool_call_parser,
            mode=mode,
            text=env.get("LAB_TEXT"),
            token_delay=float(env.get("LAB_TOKEN_DELAY", "0")),
            namespace=env.get("LAB_NAMESPACE") or env.get("DYN_NAMESPACE", "dynamo") + (f"-{suffix}" if suffix else ""),
        )
    )


if __name__ == "__main__":
    main()
