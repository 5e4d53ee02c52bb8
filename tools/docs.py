#!/usr/bin/env python3
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the parts of the documentation that follow from catalog, argument_specs and requirements.

  tools/docs.py            writes them (make docs)
  tools/docs.py --check    names what is out of date, and fails if something is (make lint)

Whole files: docs/targets/*.md and docs/options.md. Elsewhere what stands between `<!-- generated: NAME -->` and
`<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _release  # noqa: E402

CATALOG = ROOT / "roles/target/files/recipes"
HEAD = "<!-- Written by tools/docs.py from {source}; `make docs` writes it again. -->\n"
TIMES = "\u00d7"
FRAMEWORKS = {"sglang": "SGLang", "vllm": "vLLM", "trtllm": "TensorRT-LLM"}
ORIGINS = {
    "stated": "stated by the vendor",
    "upstream": "in sources of vendor or framework",
    "inferred": "inferred by us",
}


class Target:
    """A target of the catalog, with the release that it is without any binding."""

    def __init__(self, name: str, catalog: Mapping[str, str]) -> None:
        self.name = name
        self.meta = _catalog.read(name, catalog).meta
        self.release = _release.build(_catalog.read(name, catalog), {"namespace": "llm"})
        self.short = sorted((s for s in _catalog.short_names(name) if _unambiguous(s, catalog)), key=len)
        self.page = f"{self.release['name']}.md"

    def images(self) -> list[str]:
        """Images of the deployment's containers, each once."""
        found = []
        for component in self.release["manifest"]["spec"]["components"]:
            spec = component["podTemplate"]["spec"]
            found += [c["image"] for c in [*spec.get("initContainers", []), *spec["containers"]]]
        return list(dict.fromkeys(found))

    def workers(self) -> str:
        """As `3 prefill and 3 decode, 4 x GB200 each`."""
        kinds = [(w["replicas"], "aggregated" if w["type"] == "worker" else w["type"]) for w in self.release["workers"]]
        each = " each" if sum(count for count, _kind in kinds) > 1 else ""
        text = " and ".join(f"{count} {kind}" for count, kind in kinds)
        return f"{text}, {self.release['workers'][0]['gpus']} {TIMES} {self.release['gpu']}{each}"


def _unambiguous(short: str, catalog: Mapping[str, str]) -> bool:
    return sum(short in _catalog.short_names(other) for other in catalog) == 1


def targets() -> list[Target]:
    catalog = _catalog.find([str(CATALOG)])
    return [
        Target(name, catalog) for name in sorted(catalog, key=lambda name: (not name.startswith("minimax-m3.1"), name))
    ]


def gigabytes(size: int | None) -> str:
    return f"{size / 1e9:.0f} GB" if size else "said by the hub"


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def target_page(target: Target) -> str:
    release, meta = target.release, target.meta
    facts = [
        ["Framework", FRAMEWORKS[release["framework"]]],
        ["Workers", target.workers()],
        ["Requests of a worker", ", ".join(f"{w['cpu']} CPU, {w['memory']}" for w in release["workers"][:1])],
        ["Node label `nvidia.com/gpu.product`", ", ".join(f"`{product}`" for product in release["gpu_products"])],
        ["Served model", f"`{release['served_model']}`"],
        ["Context", f"{release['context_length']} tokens"],
        ["Endpoint", f"Service `{release['frontend']['service']}`, port {release['frontend']['port']}"],
        ["Claim", f"`{release['claim']['name']}`, {release['claim']['size']} where a run creates it"],
        ["ComputeDomain", f"`{release['compute_domain']['name']}`" if release["compute_domain"] else "none"],
        ["Time to be ready", f"up to {release['timeouts']['ready']} s"],
    ]
    models = [
        [f"`{m['id']}`", f"`{m['commit'][:12]}`" if m["commit"] else "not pinned", m["layout"], gigabytes(m["bytes"])]
        for m in release["models"]
    ]
    origins: dict[str, list[str]] = {origin: [] for origin in ORIGINS}
    for field, text in meta["provenance"].items():
        origin, _colon, why = str(text).partition(":")
        origins[origin].append(f"{field} ({why.strip()})" if why else field)
    short = target.short[0] if target.short else release["name"]
    names = ", ".join(f"`{name}`" for name in [*target.short, release["name"]])
    notes = "".join(f"* {note}\n" for note in release["notes"])
    arguments = {
        w["name"]: " ".join(
            next(c for c in w["podTemplate"]["spec"]["containers"] if c["name"] == "main").get("args", [])
        )
        for w in release["manifest"]["spec"]["components"]
        if w["type"] != "frontend"
    }
    return (
        HEAD.format(source=f"roles/target/files/recipes/{target.name}")
        + f"# {FRAMEWORKS[release['framework']]}, {release['topology']}, {release['gpu']}: `{target.name}`\n\n"
        + f"    ansible-playbook inferops.dynamo.deploy -i inventories/prod -e target={short}\n\n"
        + f"Other names of it: {names}.\n\n"
        + table(["", ""], facts)
        + "\n## Checkpoint\n\n"
        + table(["Repository", "Commit", "Layout", "Size"], models)
        + "\n## Images\n\n"
        + "".join(f"* `{image}`\n" for image in target.images())
        + "\n## Where each part comes from\n\n"
        + table(["Origin", "Parts"], [[ORIGINS[key], "; ".join(parts)] for key, parts in origins.items() if parts])
        + (f"\n{notes}" if notes else "")
        + "\n## What the workers are started with\n\n"
        + "".join(f"{name}:\n\n```text\n{_wrapped(text)}\n```\n\n" for name, text in arguments.items())
        + f"The manifest: `roles/target/files/recipes/{target.name}/deploy.yaml`."
        + " `playbooks/target.yml --diff` prints it as bound to your cluster.\n"
    )


def _wrapped(text: str) -> str:
    """One option a line; shell texts as they are."""
    return text.strip() if "\n" in text.strip() else re.sub(r" (--\w)", r"\n\1", text.strip())


def target_table(found: list[Target]) -> str:
    rows = []
    for target in found:
        checkpoint = " and ".join(m["id"] for m in target.release["models"])
        framework = FRAMEWORKS[target.release["framework"]]
        rows.append([f"[`{target.name}`](docs/targets/{target.page})", framework, target.workers(), checkpoint])
    return table(["Target", "Framework", "Workers", "Checkpoint"], rows)


def artifacts(found: list[Target]) -> str:
    """Everything that a site without the internet has to bring in, from the catalog and the requirements."""
    images: dict[str, list[str]] = {}
    models: dict[str, tuple[str, str]] = {}
    for target in found:
        for image in target.images():
            images.setdefault(image, []).append(target.name)
        for m in target.release["models"]:
            models[m["id"]] = (m["commit"] or "choose one: dynamo_model_commit", gigabytes(m["bytes"]))
    image_rows = [[f"`{image}`", ", ".join(users)] for image, users in images.items()]
    meta = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
    runtime = yaml.safe_load((ROOT / "meta/runtime.yml").read_text("utf-8"))
    lines = (ROOT / "meta/ee-requirements.txt").read_text("utf-8").splitlines()
    packages = [f"ansible-core{runtime['requires_ansible']}", *(line for line in lines if line and line[0] != "#")]
    python = [[f"`{name}`", "controller"] for name in packages]
    collections = [[f"`{meta['namespace']}.{meta['name']}` {meta['version']}", "controller"]]
    collections += [[f"`{name}` {wanted}", "controller"] for name, wanted in meta["dependencies"].items()]
    domains = ", ".join(target.name for target in found if target.release["compute_domain"])
    versions = {
        component["runtimeVersionOverride"]
        for target in found
        for component in target.release["manifest"]["spec"]["components"]
        if "runtimeVersionOverride" in component
    }
    charts = [
        ["`gpu-operator`, or drivers and device plugin by other means", "every target"],
        [f"`dynamo-platform` (recipes are of runtime {', '.join(sorted(versions))})", "every target"],
        ["`dra-driver-nvidia-gpu` with ComputeDomains", domains],
    ]
    return (
        "Images (with their digests, for the platform of the GPU nodes: GB200 and GB300 are arm64):\n\n"
        + table(["Image", "Needed by"], image_rows)
        + "\nCheckpoints:\n\n"
        + table(["Repository", "Commit", "Size"], [[f"`{name}`", *rest] for name, rest in models.items()])
        + "\nCharts, of the vendor, each with images of its own (this collection installs none of them):\n\n"
        + table(["Chart", "Needed by"], charts)
        + "\nCollections and Python packages:\n\n"
        + table(["Package", "Where"], [*collections, *python])
    )


def options_page() -> str:
    parts = [
        HEAD.format(source="roles/*/meta/argument_specs.yml"),
        "# Options of the roles\n\n"
        "What an inventory sets is in [inventory.md](inventory.md). These are the options of each role, for playbooks\n"
        "of your own; where the default reads an inventory variable, that is named.\n"
        "`ansible-doc -t role inferops.dynamo.deploy` shows the same.\n",
    ]
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        role = path.parents[1].name
        spec = yaml.safe_load(path.read_text("utf-8"))["argument_specs"]["main"]
        defaults = yaml.safe_load((path.parents[1] / "defaults/main.yml").read_text("utf-8")) or {}
        rows = [
            [f"`{name}`", _type(option), _default(option, defaults.get(name)), _text(option["description"])]
            for name, option in (spec.get("options") or {}).items()
        ]
        parts.append(f"\n## {role}\n\n{_text(spec['short_description'])}. [More](../roles/{role}/README.md)\n\n")
        parts.append(table(["Option", "Type", "Default", "Meaning"], rows))
    return "".join(parts)


def _type(option: Mapping[str, Any]) -> str:
    kind = option.get("type", "str")
    kind = f"{kind} of {option['elements']}" if "elements" in option else kind
    return f"{kind}, required" if option.get("required") else kind


def _default(option: Mapping[str, Any], default: Any) -> str:
    source = (
        re.search(r"\b(dynamo_\w+|add_target|model_update|allow_gap)\b", str(default)) if default is not None else None
    )
    if source:
        return f"`{source[1]}`"
    if isinstance(default, str) and "{{" in default:
        return "computed"
    shown = option.get("default", default)
    return (
        ""
        if shown in (None, "", [], {})
        else f"`{yaml.safe_dump(shown, default_flow_style=True, width=1000).splitlines()[0]}`"
    )


def _text(text: str | list[str]) -> str:
    """Plain text of a description: markup of ansible-doc becomes code."""
    joined = " ".join(text) if isinstance(text, list) else text
    return re.sub(r"\b[CVOBI]\(([^)]*)\)", r"`\1`", " ".join(joined.split())).rstrip(".")


def generated() -> Iterator[tuple[Path, str]]:
    """(file, its wanted content)"""
    found = targets()
    for target in found:
        yield ROOT / "docs/targets" / target.page, target_page(target)
    yield ROOT / "docs/options.md", options_page()
    for name, parts in {
        "README.md": {"targets": target_table(found)},
        "docs/air_gapped.md": {"artifacts": artifacts(found)},
    }.items():
        text = (ROOT / name).read_text("utf-8")
        for part, content in parts.items():
            before, start, rest = text.partition(f"<!-- generated: {part} -->\n")
            _old, end, after = rest.partition("<!-- end -->")
            assert start and end, f"{name} has no place for {part}"
            text = f"{before}{start}\n{content}\n{end}{after}"
        yield ROOT / name, text


def main() -> int:
    check = "--check" in sys.argv[1:]
    wanted = dict(generated())
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    left = [path for path in (ROOT / "docs/targets").glob("*.md") if path not in wanted]
    if not check:
        for path in stale:
            path.write_text(wanted[path], "utf-8")
        for path in left:
            path.unlink()
        return 0
    for path in [*stale, *left]:
        print(f"{path.relative_to(ROOT)} is out of date: run 'make docs'")
    return 1 if stale or left else 0


if __name__ == "__main__":
    sys.exit(main())
