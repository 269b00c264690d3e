"""mkdocs: documents of the checkout that lie outside docs/ become pages of the site, and links to them stay links.

A link to another file of the checkout (a manifest, an example) leads to a copy of it. A link to a folder, or to source
code, becomes plain text: the site has no page for it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "checkout/readme.md",
    "ARCHITECTURE.md": "checkout/architecture.md",
    "CONTRIBUTING.md": "checkout/contributing.md",
    "CHANGELOG.md": "checkout/changelog.md",
    "SECURITY.md": "checkout/security.md",
    "deploy/README.md": "checkout/deploy.md",
}
"""By their place in the checkout."""
COPIED = (".yaml", ".svg", ".csv")
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
_PICTURE = re.compile(r'((?:src|srcset)=")([^":]+)(")')


def on_files(files: Files, config: Any) -> Files:
    """Add the documents outside docs/ and the files that documents link to."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for source in (*PAGES, *(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md"))):
        for match in _LINK.finditer((ROOT / source).read_text()):
            target = _target(source, match[2])
            if target and target.endswith(COPIED) and not target.startswith("docs/") and (ROOT / target).is_file():
                where = f"checkout/{target}"
                if files.get_file_from_path(where) is None:
                    files.append(File.generated(config, where, content=(ROOT / target).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links of a page lead to where things are on the site."""
    here = page.file.src_uri
    source = next((file for file, name in PAGES.items() if name == here), f"docs/{here}")

    def link(match: re.Match[str]) -> str:
        address, hash_mark, anchor = match[2].partition("#")
        target = _target(source, match[2])
        if target is None or not address:
            return match[0]
        where = PAGES.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        if where is None and target.endswith(COPIED) and (ROOT / target).is_file():
            where = f"checkout/{target}"
        if where is None:
            return match[1].strip("![]")
        return f"{match[1]}({posixpath.relpath(where, posixpath.dirname(here) or '.')}{hash_mark}{anchor})"

    def picture(match: re.Match[str]) -> str:
        target = _target(source, match[2])
        if target is None or not target.startswith("docs/"):
            return match[0]
        return match[1] + posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(here) or ".") + match[3]

    return _PICTURE.sub(picture, _LINK.sub(link, markdown))


def _target(source: str, address: str) -> str | None:
    """The place in the checkout that an address in a document means; None if it is of another site."""
    path = address.partition("#")[0]
    if "://" in address or address.startswith("mailto:"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
