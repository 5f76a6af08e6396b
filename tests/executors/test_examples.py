"""The example clusters: what Ray and KubeRay read, and commands that lobsdice reads."""

import json
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from lobsdice.cli.main import _find, _parse
from lobsdice.cli.table import Command
from lobsdice.executors.options import Where

FOLDER = Path(__file__).parents[2] / "examples" / "clusters"
FILES = sorted(FOLDER.glob("*.yaml"))


def test_ray_accepts_its_cluster():
    import ray.autoscaler

    schema = json.loads(Path(ray.autoscaler.__path__[0], "ray-schema.json").read_text())
    cluster = yaml.safe_load((FOLDER / "ray_cluster.yaml").read_text())
    jsonschema.validate(cluster, schema)
    assert cluster["head_node_type"] in cluster["available_node_types"]


def test_every_pod_of_kuberay_mounts_the_shared_volume():
    cluster = yaml.safe_load((FOLDER / "kuberay.yaml").read_text())
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    pods = [group["template"]["spec"] for group in groups]
    mounts = [c["volumeMounts"] for pod in pods for c in pod["containers"]]
    assert mounts == [[{"name": "shared", "mountPath": "/shared"}]] * len(pods)
    assert all([volume["name"] for volume in pod["volumes"]] == ["shared"] for pod in pods)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_command_of_an_example_trains_on_ray(path):
    (line,) = [line for line in path.read_text().splitlines() if "lobsdice experiment" in line]
    words = shlex.split(line.partition("lobsdice ")[2])
    found, entry, rest = _find(words)
    assert isinstance(entry, Command)
    where = getattr(_parse(found, entry, rest), "where", None)
    assert where == Where(on="ray", gpus=0.25)
