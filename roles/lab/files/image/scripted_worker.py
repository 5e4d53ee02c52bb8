# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A deterministic Dynamo worker on the vendor's own backend SDK (dynamo.common.backend).

Frontend, preprocessor, chat template, reasoning parser, detokenizer and router are the real ones; only the engine's
token ids are scripted: a block of reasoning unless the effort is none, then "2 + 2 = 4" when the prompt asks for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from dynamo.common.backend.engine import EngineConfig, LLMEngine, LlmRegistration
from dynamo.common.backend.run import run
from dynamo.common.backend.worker import WorkerConfig
from mkmodel import MARKERS, vocabulary

VOCAB = vocabulary()
NAMES = {token_id: token for token, token_id in VOCAB.items()}
NO_LIMIT = 1 << 20


@dataclass
class Options:
    """How to register, and what goes wrong (engine.py fills it from the manifest and the LAB_ variables)."""

    model_path: str
    served_name: str
    context: int
    block_size: int
    reasoning_parser: str | None
    tool_parser: str | None
    mode: str = "ok"
    text: str | None = None
    token_delay: float = 0.0
    namespace: str = "dynamo"


OPTIONS: Options | None = None


def encode(text: str) -> list[int]:
    ids: list[int] = []
    while text:
        marker = next((m for m in MARKERS if text.startswith(m)), None)
        if marker:
            ids.append(VOCAB[marker])
        else:
            ids.extend(text[0].encode())
        text = text[len(marker or text[0]) :]
    return ids


def decode(ids: list[int]) -> str:
    return "".join(chr(i) if i < 256 else NAMES.get(i, "") for i in ids)


def answer(mode: str, text: str | None, prompt: str, images: dict[str, list[Any]]) -> list[int]:
    """The token ids of the whole answer."""
    if mode == "empty":
        return []
    reply = "2 + 2 = 4" if "2 + 2" in prompt else "ready"
    if text is not None:
        reply = text
    elif images:
        reply = "images: " + ", ".join(f"{kind} x{len(items)}" for kind, items in images.items())
    if mode == "length":
        return encode("<mm:think>still thinking")
    if mode == "plain" or "effort=none" in prompt:
        return encode(reply)
    return encode(f"<mm:think>Two and two make four.</mm:think>{reply}")


class Scripted(LLMEngine):
    """The engine that the SDK's `run` drives."""

    options: Options

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple[Scripted, WorkerConfig]:
        assert OPTIONS is not None
        self = cls()
        self.options = OPTIONS
        return self, WorkerConfig(
            namespace=OPTIONS.namespace,
            component="backend",
            model_name=OPTIONS.model_path,
            served_model_name=OPTIONS.served_name,
            discovery_backend=os.environ.get("DYN_DISCOVERY_BACKEND", "file"),
            event_plane=os.environ.get("DYN_EVENT_PLANE", "zmq"),
            enable_kv_routing=False,
            reasoning_parser=OPTIONS.reasoning_parser,
            tool_call_parser=OPTIONS.tool_parser,
        )

    async def start(self, worker_id: int) -> EngineConfig:
        return EngineConfig(
            model=self.options.model_path,
            served_model_name=self.options.served_name,
            llm=LlmRegistration(
                context_length=self.options.context,
                kv_cache_block_size=self.options.block_size,
                total_kv_blocks=16384,
                max_num_seqs=256,
                max_num_batched_tokens=8192,
            ),
        )

    async def generate(self, request: dict[str, Any], context: Any) -> AsyncIterator[dict[str, Any]]:
        mode, prompt_ids = self.options.mode, request["token_ids"]
        if mode == "raise":
            raise RuntimeError("CUDA error: scripted failure")
        while mode == "hang" and not context.is_stopped():
            await asyncio.sleep(0.05)
        images = request.get("multi_modal_data") or {}
        ids = answer(mode, self.options.text, decode(prompt_ids), images)
        limit = 12 if mode == "length" else (request.get("stop_conditions") or {}).get("max_tokens") or NO_LIMIT
        for position, token in enumerate(ids[:limit]):
            if context.is_stopped():
                return
            if mode == "partial" and position == 3:
                raise RuntimeError("CUDA error: scripted failure after three tokens")
            if self.options.token_delay:
                await asyncio.sleep(self.options.token_delay)
            yield {"token_ids": [token], "index": 0}
        made = min(len(ids), limit)
        yield {
            "token_ids": [],
            "index": 0,
            "finish_reason": "length" if made < len(ids) else "stop",
            "completion_usage": {
                "prompt_tokens": len(prompt_ids),
                "completion_tokens": made,
                "total_tokens": len(prompt_ids) + made,
            },
        }

    async def cleanup(self) -> None:
        pass


def serve(options: Options) -> None:
    """Registers and answers until SIGTERM."""
    global OPTIONS
    OPTIONS = options
    run(Scripted)
