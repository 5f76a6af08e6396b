"""Hooks that build the site from this folder and from other files of the repository.

Pages link to results, to the changelog and the like by their place in the repository, so that the
links work where the repository is read. In the site these files lie beside the pages of docs/.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
#: What of the repository belongs to the site, beside docs/.
OUTSIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "results/*/*.*",
    "benchmarks/*.py",
    "examples/*/*.*",
)

LINK = re.compile(r"(\]\()([^)#:]+)((?:#[^)]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            where = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, where, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri

    def inside(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        return before + relink(here, target) + after

    return LINK.sub(inside, markdown)


def relink(page: str, target: str) -> str:
    """Turn a link between files of the repository into one between files of the site."""
    folder = posixpath.dirname(place(page))
    found = posixpath.normpath(posixpath.join(folder, target))
    return posixpath.relpath(found.removeprefix("docs/"), posixpath.dirname(page) or ".")


def place(page: str) -> str:
    """The place of a page of the site in the repository."""
    return page if (ROOT / page).exists() else f"docs/{page}"
