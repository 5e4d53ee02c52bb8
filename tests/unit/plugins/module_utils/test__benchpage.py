# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchpage, _benchsummary
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._benchmark_objects import (
    files,
    measured,
    summary,
)

pytest.importorskip("matplotlib")
SVG = "{http://www.w3.org/2000/svg}"


def figures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def texts(svg: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()).strip() for node in svg.iter(f"{SVG}text")]


class Attributes(HTMLParser):
    """Everything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [str(v) for k, v in attrs if k in ("src", "href", "xlink:href") and not str(v).startswith("#")]
        assert tag not in ("script", "link", "img")


def test_one_page_that_fetches_nothing() -> None:
    page = _benchpage.page(summary())
    parser = Attributes()
    parser.feed(page)
    assert parser.found == []
    assert "@import" not in page and not re.search(r"url\((?!#)", page)
    assert len(page) < 200_000


def test_plots_show_every_point_in_colours_of_the_style_sheet() -> None:
    throughput, latency = figures(_benchpage.page(summary()))
    assert {"1", "2", "4", "this run"} <= set(texts(throughput))
    assert "output tokens/s per GPU" in texts(throughput)
    assert {"p50", "p90", "p99", "concurrency"} <= set(texts(latency))
    assert "var(--now)" in ElementTree.tostring(throughput, "unicode")
    assert not any(colour in _benchpage.page(summary()) for colour in _benchpage.ROLES)
    assert "prefers-color-scheme: dark" in _benchpage.page(summary())


def test_the_same_numbers_give_the_same_page() -> None:
    assert _benchpage.page(summary()) == _benchpage.page(summary())


def test_the_run_compared_with_is_drawn_beside() -> None:
    before = summary(run="before", identity={"framework": "<vllm>"})
    comparison = {**_benchsummary.compare(summary(), before), "limit": 5}
    page = _benchpage.page(summary(), before, comparison)
    assert {"this run", "baseline"} <= set(texts(figures(page)[0]))
    assert "none of these may be more than 5% worse" in page
    assert "&lt;vllm&gt;" in page and "<vllm>" not in page


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"found": measured(c4=files("failed"))}, "326 of 400 requests of concurrency-4 failed"),
        ({"failure": {"code": "WORKER_LOST", "message": "<b>gone"}}, "WORKER_LOST: &lt;b&gt;gone"),
        ({"identity": {"synthetic_acceptance": True}}, "SYNTHETIC ACCEPTANCE"),
    ],
)
def test_what_has_to_be_known_stands_before_the_numbers(given: dict[str, Any], words: str) -> None:
    page = _benchpage.page(summary(**given))
    assert words in page[: page.index("<svg")]
    told = "synthetic acceptance" if "identity" in given else "NOT WHOLE"
    assert page.count(told) >= 3  # the banner and both plots


def test_without_points_or_matplotlib_there_are_no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    assert figures(_benchpage.page(summary({}))) == []
    monkeypatch.setattr(_benchpage, "HAS_MATPLOTLIB", False)
    page = _benchpage.page(summary())
    assert figures(page) == [] and "matplotlib is not installed" in page and "concurrency-4" in page
