# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab's engine takes from a recipe's arguments, and what it refuses to load."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import engine
import pytest


def test_arguments_of_each_engine(tmp_path: Path) -> None:
    settings = tmp_path / "agg.yaml"
    settings.write_text("max_seq_len: 4096\n")
    vllm = engine.parse(["--model", "/m", "--served-model-name", "s", "--max-model-len", "8", "--trust-remote-code"])
    sglang = engine.parse(["--model-path", "/m", "--context-length", "8", "--page-size", "64", "--tp-size", "4"])
    trtllm = engine.parse(["--model", "/m", "--extra-engine-args", str(settings), "--disaggregation-mode", "agg"])
    assert (vllm.model, vllm.served_model_name, vllm.context, vllm.block_size) == ("/m", ["s"], 8, 128)
    assert (sglang.model, sglang.context, sglang.block_size) == ("/m", 8, 64)
    assert trtllm.context == 4096


def test_draft() -> None:
    args = engine.parse(["--model", "a/b", "--speculative-config", '{"model": "c/d", "revision": "main"}'])
    assert args.draft == ("c/d", "main")
    assert engine.parse(["--model", "a/b"]).draft is None


def test_missing_configuration_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        engine.parse(["--model", "/m", "--extra-engine-args", "/nothing.yaml"])
    assert "/nothing.yaml" in capsys.readouterr().err


def test_router_options_are_passed_on() -> None:
    words = ["--router-mode", "kv", "--no-router-track-output-blocks", "--model", "/m", "--router-kv-events"]
    expected = ["--router-mode", "kv", "--no-router-track-output-blocks", "--router-kv-events"]
    assert engine.router_options(words) == expected


def shard(path: Path, declared: int, present: int) -> Path:
    header = json.dumps({"w": {"dtype": "U8", "shape": [declared], "data_offsets": [0, declared]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * present)
    return path


def test_shards(tmp_path: Path) -> None:
    assert engine.shard_problem(shard(tmp_path / "good", 16, 16)) == ""
    assert "not fully covered" in engine.shard_problem(shard(tmp_path / "short", 16, 15))
    assert "not fully covered" in engine.shard_problem(shard(tmp_path / "long", 16, 17))
    (tmp_path / "pointer").write_text("version https://git-lfs\n")
    assert "deserializing" in engine.shard_problem(tmp_path / "pointer")
    (tmp_path / "empty").touch()
    assert "deserializing" in engine.shard_problem(tmp_path / "empty")
    assert "No such file" in engine.shard_problem(tmp_path / "absent")


def test_a_shard_of_the_index_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    shard(tmp_path / "a.safetensors", 4, 4)
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(SystemExit):
        engine.check_weights(tmp_path)
    assert "b.safetensors" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["/nothing/here", "one-word"])
def test_neither_folder_nor_repository(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        engine.resolve(model, None)
    assert model in capsys.readouterr().err
