"""Makes a site of the documents with Sphinx, which `make docs` runs; every warning is an error.

The documents are read on GitHub, too, so they link to each other by relative paths, and the lists in docs/README.md are the
navigation of the site. A page that is in no list is an error, and so is a link without a target.
"""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

project = html_title = "Tidegate"
extensions = ["myst_parser"]
# The folder of the sources is the repository.
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**.md", "plugins/*.md", "tests/*/README.md"]
# Folders that are not searched for pages.
exclude_patterns = [".*", "build", "jars", "tidegate"]
# Headings have the anchors that GitHub gives them.
myst_heading_anchors = 3
# Blocks without a language are output of commands; fragments of Python may have an ellipsis.
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_show_copyright = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]


def list_pages(app: Sphinx, page: nodes.document) -> None:
    """Put the pages that a section of docs/README.md links to into the navigation, under the heading of the section."""
    if app.env.docname != root_doc:
        return
    for section in page.findall(nodes.section):
        heading, *content = (part for part in section.children if not isinstance(part, nodes.section))
        links = [link["reftarget"] for part in content for link in part.findall(addnodes.pending_xref)]
        if links:
            pages, caption = list(dict.fromkeys(links)), heading.astext()
            contents = addnodes.toctree(parent=root_doc, caption=caption, rawcaption=caption, includefiles=pages)
            contents.attributes.update(
                entries=[(None, each) for each in pages], hidden=True, titlesonly=True, maxdepth=1
            )
            contents.attributes.update(glob=False, numbered=0, includehidden=False)
            section.append(contents)


def setup(app: Sphinx) -> None:
    """Make the lists before Sphinx collects them, at 500."""
    app.connect("doctree-read", list_pages, priority=400)
