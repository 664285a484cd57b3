"""Sphinx configuration. The pages load nothing from other machines (checked by _ext/check_offline.py)."""

import sys
import tomllib
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "kernelweave"
author = "The kernelweave developers"
copyright = "The kernelweave developers"
release = version = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "api_page",
    "convex_page",
    "experiment_page",
    "mathml",
    "scoreboard_page",
    "table_cards",
]

exclude_patterns = ["_build", "_ext", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.zip"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# References in plain backticks become links where they can be resolved, and code where they cannot.
default_role = "autolink"
# Pages stay readable offline, and builds need no network.
intersphinx_mapping: dict[str, tuple[str, None]] = {}

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
# Looking a class up reads its former names, too.
warnings.filterwarnings("ignore", "`strength`", FutureWarning)
autodoc_typehints = "none"  # types are in the docstrings
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Formulas become MathML, which browsers render themselves.
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "kernelweave"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": False,
    "header_links_before_dropdown": 4,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    # the table of methods needs the place
    "secondary_sidebar_items": {"**": ["page-toc"], "methods": []},
}
# The table of methods needs the width.
html_sidebars = {"methods": []}

# Former addresses of pages, which lead to the present ones.
MOVED = {
    **{
        f"user_guide/{name}": f"reference/{name}"
        for name in ("datasets", "learners", "normalisers", "numbers", "representations")
    },
    **{f"user_guide/{name}": f"papers/{name}" for name in ("gaussian_process", "two_layers")},
}


def write_former_addresses(app, exception):
    """A page at each former address that leads to the present one, without scripts."""
    if exception is None and app.builder.format == "html":
        for former, present in MOVED.items():
            page = Path(app.outdir, f"{former}.html")
            page.parent.mkdir(parents=True, exist_ok=True)
            link = f"../{present}.html"
            page.write_text(
                f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Moved</title>'
                f'<meta http-equiv="refresh" content="0; url={link}">'
                f'<p>This page is now <a href="{link}">here</a>.</p></html>\n'
            )


def setup(app):
    app.connect("build-finished", write_former_addresses)


# The gallery runs every examples/plot_*.py. Without such a file there is no gallery, and no page for it.
if any((HERE.parent / "examples").glob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "../examples",
        "gallery_dirs": "gallery",
        "filename_pattern": r"plot_",
        "abort_on_example_error": True,
        "capture_repr": (),  # examples print what is to be read
        "download_all_examples": False,
        "remove_config_comments": True,
        "show_memory": False,
        "show_signature": False,
        "write_computation_times": False,  # that page loads scripts from elsewhere
        "within_subsection_order": "FileNameSortKey",
    }
    tags.add("gallery")  # noqa: F821  Sphinx defines it
