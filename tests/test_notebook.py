"""The notebook in examples/, executed by a kernel, at a small size."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

PATH = Path(__file__).parents[1] / "examples" / "first_hour.ipynb"
SMALL = {
    r"expert=5": 'expert=1, offline={"expert": 2, "random": 2}',
    r"steps=[\d_]+": "steps=8",
    r"every=[\d_]+": "every=4",
    r"batch_size=\d+": "batch_size=8",
    r"width=\d+": "width=8",
}


@pytest.mark.filterwarnings("default")  # those of the client's own libraries
def test_the_notebook_runs_and_shows_a_bar_and_a_picture(tmp_path, monkeypatch):
    monkeypatch.setenv("LOBSDICE_CACHE", str(tmp_path / "cache"))
    notebook = nbformat.read(PATH, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    for cell in notebook.cells:
        for pattern, replacement in SMALL.items():
            cell.source = re.sub(pattern, replacement, cell.source)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}})
    assert client.create_kernel_manager().ip == "127.0.0.1"
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output["data"] for output in outputs if "data" in output]
    (bar,) = [x["text/html"] for x in shown if "Training" in x.get("text/html", "")]
    assert bar.startswith('<progress max="8" value="8"></progress> Training: 8/8, ')
    assert any("image/png" in data for data in shown)
    assert (tmp_path / "reach.policy").exists()
