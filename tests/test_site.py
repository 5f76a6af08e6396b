"""The site of the documentation, as a browser sees it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import Tab, tab

FOLDER = Path(__file__).parents[1]
PAGES = ("index.html", "mathematics/dual.html", "mathematics/networks.html",
         "api/training.html", "results/neural/index.html")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=FOLDER, env=quiet, check=True)
    return folder


def count(page: Tab, selector: str) -> int:
    return page.value(f"document.querySelectorAll({json.dumps(selector)}).length")


def test_pages_are_whole_and_fetch_nothing(site):
    with tab() as page:
        for name in PAGES:
            page.open(site / name)
            assert page.troubles == [], name
            formulas = count(page, ".arithmatex")
            assert (formulas > 20) == name.startswith("mathematics"), name
            assert count(page, ".arithmatex:has(.katex-html)") == formulas
            assert count(page, ".katex-error") == 0
            assert page.value("[...document.images].every(image => image.naturalWidth > 0)")
