# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx settings of the site that tools/site.sh builds from docs/ and from what antsibull-docs writes."""

from __future__ import annotations

project = "inferops.dynamo"
copyright = "inferops.dynamo contributors"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "240px"}
html_copy_source = False
myst_heading_anchors = 3
# The pages of plugins refer to pages of ansible.com and of other collections, which aren't here.
suppress_warnings = ["ref.ref", "ref.any", "ref.doc", "ref.envvar"]
