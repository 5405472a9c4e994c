"""The configuration of the site: `make docs` builds it in build/site."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))  # the extension below
os.environ.setdefault("MPLBACKEND", "agg")
GALLERY = (
    os.environ.get("JOKER_GALLERY") != "0"
)  # without it, a build runs no example and overwrites none of their pages

project = "joker"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
version = release
project_copyright = "joker contributors"
author = "joker contributors"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "mathml",
    "formulas",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    *(["sphinx_gallery.gen_gallery"] if GALLERY else []),
]
exclude_patterns = [
    "templates",
    *(["gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"] if GALLERY else ["gallery/**"]),
]
templates_path = ["templates"]
nitpicky = False
default_role = "py:obj"
# A build without the gallery has no pages for the links to it; `make docs` checks them.
suppress_warnings = [
    "config.cache",
    *([] if GALLERY else ["toc.excluded", "myst.xref_missing", "ref.doc"]),
]

# Pages in Markdown. Anchors are those of GitHub, so that the links of the pages work in both places.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

html_math_renderer = "mathml"

# The reference
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings name the types
autodoc_mock_imports = ["ray"]  # the site is built without Ray
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_validation_checks = set()

doctest_global_setup = "import numpy as np\nimport torch\nimport joker"

# The gallery
sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"demo\.py$",
    "within_subsection_order": "gallery_order.InOrder",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "default_thumb_file": str(ROOT / "docs" / "_static" / "logo.png"),
    "matplotlib_animations": False,
    "backreferences_dir": None,
    "min_reported_time": 0,
    "thumbnail_size": (400, 280),
    "image_srcset": ["2x"],
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# The pages
html_theme = "pydata_sphinx_theme"
html_title = "joker"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.png"
html_show_sourcelink = False
html_copy_source = False
# Sections of one page: their side would be empty.
html_sidebars: dict[str, list[str]] = {"faq": [], "results": []}
html_context = {"default_mode": "auto"}
html_theme_options: dict[str, Any] = {
    "logo": {"text": "joker", "image_light": "_static/logo.png", "image_dark": "_static/logo.png"},
    "switcher": {"json_url": "_static/switcher.json", "version_match": release},
    "check_switcher": False,
    "navbar_start": ["navbar-logo", "version-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# `make docs-links` asks every address; the public ones need a network.
linkcheck_ignore = [r"http://localhost.*"]

# Links that lead out of the folder of the pages: to an example of the gallery, to a page that includes the file, or to
# the file itself, which is copied.
EXAMPLE = re.compile(r"\]\(\.\./examples/(\w+)\.py\)")
INCLUDED = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}


def lead_into_the_site(app: Any, docname: str, source: list[str]) -> None:
    """Replace links to files of the repository by links to pages of the site."""
    text = EXAMPLE.sub(r"](gallery/\1.rst)", source[0])
    for name, page in INCLUDED.items():
        text = text.replace(f"](../{name})", f"]({page})")
    source[0] = text


def lead_from_the_root(app: Any, relative: Path, parent: str, content: list[str]) -> None:
    """Correct the links of a file that a page includes from the folder above."""
    text = content[0].replace("](docs/", "](")
    text = re.sub(r"\]\(examples/(\w+)\.py\)", r"](gallery/\1.rst)", text)
    for name, page in INCLUDED.items():
        text = text.replace(f"]({name})", f"]({page})")
    content[0] = re.sub(r"\]\((benchmarks|CITATION|tests)", r"](../\1", text)


UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|kB|MB|GB|KiB|MiB|GiB|%)\b|%)")


def keep_units(app: Any, doctree: Any, docname: str) -> None:
    """Keep a number and its unit on one line of a table."""
    for cell in doctree.findall(nodes.entry):
        for text in [one for one in cell.findall(nodes.Text) if UNIT.search(one)]:
            text.parent.replace(text, nodes.Text(UNIT.sub("\u00a0", text)))


def link_names(app: Any, doctree: Any, docname: str) -> None:
    """Link names of the reference that are written as code, such as KernelSVC or joker.tune, to their pages."""
    objects = {
        name: entry
        for name, entry in app.env.domaindata["py"]["objects"].items()
        if name.startswith("joker.")
    }
    short = {
        name.removeprefix("joker."): name
        for name in objects
        if re.fullmatch(r"joker\.[A-Z]\w+", name)
    }
    for literal in list(doctree.findall(nodes.literal)):
        text = literal.astext().removesuffix("()")
        entry = objects.get(short.get(text, text))
        above = literal.parent
        while above is not None and not isinstance(above, (nodes.reference, nodes.title)):
            above = above.parent
        if entry is None or above is not None or entry.docname == docname:
            continue
        address = app.builder.get_relative_uri(docname, entry.docname) + f"#{entry.node_id}"
        reference = nodes.reference("", "", literal.deepcopy(), internal=True, refuri=address)
        literal.parent.replace(literal, reference)


def write_versions(app: Any) -> None:
    """Write the list of the version switcher: this version is the only one that is built."""
    entry = {"name": release, "version": release, "url": "./", "preferred": True}
    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "switcher.json").write_text(json.dumps([entry]), encoding="utf-8")


def skip_foreign(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class inherits from other packages, and private names."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
    module = getattr(function, "__module__", None)
    foreign = isinstance(module, str) and not module.startswith("joker")
    return True if foreign and what == "class" else None


def show_settings(
    app: Any, what: str, name: str, member: Any, options: Any, signature: Any, returned: Any
) -> Any:
    """Show the settings of an estimator, which checks unknown names before its constructor does."""
    if what != "class" or not signature or "**settings" not in signature:
        return None
    parameters = list(inspect.signature(member.__init__).parameters.values())[1:]
    return str(inspect.Signature([one.replace(annotation=one.empty) for one in parameters])), None


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("source-read", lead_into_the_site)
    app.connect("include-read", lead_from_the_root)
    app.connect("builder-inited", write_versions)
    app.connect("doctree-resolved", keep_units)
    app.connect("doctree-resolved", link_names)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-signature", show_settings)
