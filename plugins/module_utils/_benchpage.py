# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: a benchmark's summary as one HTML page that needs nothing else, light and dark. Pure.

The plots are SVG by matplotlib, which is optional: without it the page has the tables only, and says so. A plot is
drawn with colours that stand for roles, which the page's style sheet decides, so that one drawing serves both schemes.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchload
from ansible_collections.inferops.dynamo.plugins.module_utils._benchsummary import COLUMNS, at, cells, number

try:
    import matplotlib
    import matplotlib.figure

    HAS_MATPLOTLIB = True
except ImportError:
    HAS_MATPLOTLIB = False

# colour in the drawing -> variable of the style sheet
ROLES = {"#010101": "ink", "#020202": "line", "#030303": "now", "#040404": "before"}
INK, LINE, NOW, BEFORE = ROLES
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --line: #d0d5db; --now: #0b6bcb; --before: #b35900;
  --alarm: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #e6e8eb; --line: #3a4048; --now: #6cb2ff;
  --before: #ffab5c; --alarm: #ff8a80; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.alarm { border: 2px solid var(--alarm); color: var(--alarm); font-weight: 600; padding: .5rem 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .7rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.worse { color: var(--alarm); font-weight: 600; }
figure { margin: 1rem 0; } svg { height: auto; max-width: 100%; } figcaption { opacity: .8; }
"""
RC: Any = {
    "svg.fonttype": "none",  # text stays text: small, and readable to machines
    "svg.hashsalt": "inferops.dynamo",  # the same numbers give the same bytes
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": LINE,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

Summary = Mapping[str, Any]


def page(summary: Summary, baseline: Summary | None = None, comparison: Mapping[str, Any] | None = None) -> str:
    """The whole page. baseline, comparison: the run that it is compared with, and the result."""
    deployment = summary["deployment"]
    title = f"{deployment['target']}: {_benchload.describe(summary['load'])}"
    parts = [f"<h1>{html.escape(title)}</h1>"]
    parts += [f'<p class="alarm">{html.escape(warning)}</p>' for warning in summary["warnings"]]
    if baseline:
        parts += [f'<p class="alarm">the run compared with: {html.escape(text)}</p>' for text in baseline["warnings"]]
    if not HAS_MATPLOTLIB:
        parts.append("<p>No plots: matplotlib is not installed where this page was made.</p>")
    elif summary["points"]:
        parts += plots(summary, baseline)
    parts += ["<h2>Points</h2>", _table(["point", *(c[0] for c in COLUMNS)], map(cells, summary["points"]))]
    parts.append(
        "<p>Times in milliseconds. TTFT: time to first token; ITL: inter-token latency; per user: output tokens/s that"
        " one request gets, median; cache: share of input tokens that the engine reported as cached.</p>"
    )
    if comparison:
        parts += ["<h2>Comparison</h2>", _comparison(comparison)]
    parts += ["<h2>What was measured</h2>", _facts(summary)]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def row(tag: str, texts: Iterable[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in texts)}</tr>"

    return f'<div class="scroll"><table>{row("th", titles)}{"".join(row("td", texts) for texts in rows)}</table></div>'


def _comparison(comparison: Mapping[str, Any]) -> str:
    limit = comparison.get("limit") or 0
    lines = []
    for row in comparison["rows"]:
        worse = limit and row["worse"] is not None and row["worse"] > limit
        change = "-" if row["change"] is None else f"{row['change']:+.1f}%"
        texts = (row["point"], row["title"], number(row["before"], 2), number(row["now"], 2), change)
        cells_of = "".join(f"<td>{html.escape(text)}</td>" for text in texts)
        lines.append(f"<tr{' class=worse' if worse else ''}>{cells_of}</tr>")
    told = f"This run against {comparison['baseline']}."
    told += f" The gate: none of these may be more than {limit:g}% worse." if limit else " No gate was set."
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in comparison["notes"])
    heads = "".join(f"<th>{text}</th>" for text in ("point", "metric", "before", "this run", "change"))
    different = f"<p>The deployments differ in:</p><ul>{notes}</ul>" if notes else ""
    return (
        f"<p>{html.escape(told)}</p>{different}"
        f'<div class="scroll"><table><tr>{heads}</tr>{"".join(lines)}</table></div>'
    )


def _facts(summary: Summary) -> str:
    facts = {
        **{key: summary[key] for key in ("run", "host", "started", "finished", "aiperf")},
        **summary["deployment"],
        **{key: value for key, value in summary["load"].items() if key != "points"},
    }
    rows = "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(_text(v))}</td></tr>" for k, v in facts.items())
    return f'<table class="facts">{rows}</table>'


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items() if item not in ("", None))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return str(value)


# --- plots ------------------------------------------------------------------------------------------------------------


def plots(summary: Summary, baseline: Summary | None) -> list[str]:
    """The figures of a page as HTML."""
    gpus = summary["deployment"]["gpus"]
    share = "output_tokens_per_s_per_gpu" if gpus else "output_tokens_per_s"
    runs = [(summary, NOW, "this run"), *([(baseline, BEFORE, "baseline")] if baseline else [])]

    def interactivity(figure: Any) -> None:
        axes = figure.subplots()
        for run, colour, name in runs:
            found = _pairs(run, "output_tokens_per_s_per_user.p50", share)
            axes.plot([x for x, _y, _n in found], [y for _x, y, _n in found], "o-", color=colour, label=name)
            for x, y, text in found:
                axes.annotate(text, (x, y), xytext=(5, 5), textcoords="offset points", color=colour, fontsize=8)
        axes.set_xlabel("interactivity: output tokens/s per user (median)")
        axes.set_ylabel("output tokens/s per GPU" if gpus else "output tokens/s")
        _finish(axes)

    def latency(figure: Any) -> None:
        kind = "rate" if "rate" in summary["load"]["points"][0] else "concurrency"
        for axes, key, title in zip(
            figure.subplots(1, 2), ("ttft_ms", "itl_ms"), ("first token", "token"), strict=True
        ):
            for run, colour, name in runs:
                for percentile, dash in (("p50", "o-"), ("p90", "s--"), ("p99", "^:")):
                    found = _pairs(run, kind, f"{key}.{percentile}")
                    label = f"{name}, {percentile}" if baseline else percentile
                    axes.plot([x for x, _y, _n in found], [y for _x, y, _n in found], dash, color=colour, label=label)
            axes.set_xlabel(kind if kind == "concurrency" else "requests/s")
            axes.set_ylabel(f"ms to the {'next ' if key == 'itl_ms' else ''}{title}")
            _finish(axes)

    told = "; synthetic acceptance" if summary["deployment"]["synthetic_acceptance"] else ""
    told += "" if summary["whole"] else "; NOT WHOLE"
    return [
        _figure(interactivity, (7, 4.2), f"Throughput against interactivity; further right and up is better{told}."),
        _figure(latency, (9, 3.6), f"Latency; lower is better{told}."),
    ]


def _pairs(run: Summary, x: str, y: str) -> list[tuple[float, float, str]]:
    found = [(at(p, x), at(p, y), p["name"].partition("-")[2]) for p in run["points"]]
    return [pair for pair in found if pair[0] is not None and pair[1] is not None]


def _finish(axes: Any) -> None:
    axes.margins(0.12)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(True, linewidth=0.6)
    axes.legend(fontsize=8)


def _figure(draw: Callable[[Any], None], size: tuple[float, float], caption: str) -> str:
    with matplotlib.rc_context(RC):
        figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
        draw(figure)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = re.sub(r"^.*?(?=<svg)", "", stream.getvalue(), flags=re.DOTALL)
    svg = re.sub(r" *<metadata>.*?</metadata>\n", "", svg, flags=re.DOTALL)
    for colour, role in ROLES.items():
        svg = svg.replace(colour, f"var(--{role})")
    label = html.escape(caption, quote=True)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"
