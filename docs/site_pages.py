"""Site pages that are files of the repository, with links adjusted for the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def as_page(text: str) -> str:
    """Return a file's text with its links relative to docs/."""
    text = re.sub(r"(\]\(|src=\")docs/", r"\1", text)
    for name, page in PAGES.items():
        text = text.replace(f"]({name}", f"]({page}")
    return text


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to those in docs/."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=as_page((ROOT / name).read_text(encoding="utf-8"))))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page of docs/ with links to files above it replaced by links to their pages."""
    for name, page in PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    return markdown
