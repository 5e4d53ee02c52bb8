# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a tiny model directory that Dynamo's frontend, mocker and our scripted worker accept.

A byte-level BPE without merges: 256 byte tokens, a few markers, and filler words up to VOCAB ids, because the mocker
emits random ids below 2000 and an id without a token decodes to nothing.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

VOCAB = 2048
SPECIAL = ["<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>", "<image>"]
MARKERS = ["<think>", "</think>", "<mm:think>", "</mm:think>"]
# Shows the requested effort to the worker, so that it can answer with or without reasoning.
TEMPLATE = (
    "{%- for m in messages -%}<|im_start|>{{ m.role }} effort={{ reasoning_effort | default('auto') }}\n"
    "{% if m.content is string -%}{{ m.content }}{%- else -%}{%- for p in m.content -%}"
    "{%- if p.type == 'text' -%}{{ p.text }}{%- else -%}<image>{%- endif -%}{%- endfor -%}{%- endif -%}<|im_end|>\n"
    "{%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}"
)


def byte_characters() -> dict[int, str]:
    """The byte-level alphabet: byte value -> the character that stands for it."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    table, others = {}, 0
    for byte in range(256):
        table[byte] = chr(byte) if byte in printable else chr(256 + others)
        others += byte not in printable
    return table


def vocabulary() -> dict[str, int]:
    vocab = {character: byte for byte, character in byte_characters().items()}
    for token in SPECIAL + MARKERS:
        vocab[token] = len(vocab)
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    words = (a + b + c + d for a in consonants for b in vowels for c in consonants for d in vowels)
    while len(vocab) < VOCAB:
        vocab["\u0120" + next(words)] = len(vocab)
    return vocab


def documents(context: int = 1048576) -> dict[str, dict[str, Any]]:
    """File name -> content; context is in tokens."""
    vocab = vocabulary()
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "normalizer": None,
            "post_processor": None,
            "added_tokens": [
                {"id": vocab[token], "content": token, "special": token in SPECIAL, **plain}
                for token in SPECIAL + MARKERS
            ],
            "pre_tokenizer": level,
            "decoder": level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocab,
                "merges": [],
            },
        },
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_hidden_layers": 2,
            "head_dim": 16,
            "vocab_size": len(vocab),
            "max_position_embeddings": context,
            "rms_norm_eps": 1e-5,
            "torch_dtype": "bfloat16",
            "tie_word_embeddings": False,
            "bos_token_id": vocab["<|bos|>"],
            "eos_token_id": vocab["<|im_end|>"],
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|bos|>",
            "eos_token": "<|im_end|>",
            "model_max_length": context,
            "clean_up_tokenization_spaces": False,
            "chat_template": TEMPLATE,
        },
        "generation_config.json": {
            "bos_token_id": vocab["<|bos|>"],
            "eos_token_id": [vocab["<|im_end|>"]],
            "temperature": 1.0,
            "top_p": 0.95,
        },
    }


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, document in documents().items():
        with open(os.path.join(sys.argv[1], name), "w", encoding="utf-8") as out:
            json.dump(document, out)
