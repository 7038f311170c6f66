"""The files for Slurm and Kubernetes, as far as they can be checked without either."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from hardneg.cli.main import app

DEPLOY = Path(__file__).parents[1] / "deploy"
# the fields of KubeRay's RayJob, ray.io/v1, that are used here, or are easily taken for them
JOB = {
    "entrypoint", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "backoffLimit", "rayClusterSpec", "suspend",
    "runtimeEnvYAML", "submissionMode", "submitterPodTemplate", "activeDeadlineSeconds", "entrypointNumCpus",
}  # fmt: skip
CLUSTER = {"rayVersion", "enableInTreeAutoscaling", "autoscalerOptions", "headGroupSpec", "workerGroupSpecs"}
GROUP = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}


def test_the_job_has_the_fields_of_kuberay() -> None:
    job = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    assert set(job["spec"]) <= JOB and set(cluster) <= CLUSTER
    assert set(cluster["headGroupSpec"]) == {"rayStartParams", "template"}
    assert cluster["rayVersion"] == version("ray")
    image = next(line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line.startswith("FROM"))
    assert image.startswith(f"FROM rayproject/ray:{cluster['rayVersion']}-py311")
    for group in cluster["workerGroupSpecs"]:
        assert set(group) == GROUP and group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        check_pod(group["template"]["spec"])


def check_pod(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    assert {"name", "image", "resources"} <= set(container) <= {
        "name", "image", "resources", "env", "ports", "volumeMounts"
    }  # fmt: skip
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


@pytest.mark.parametrize("name", ["slurm-ray.sbatch", "slurm-torchrun.sbatch"])
def test_the_batch_files_are_sound_shell(name: str) -> None:
    path = DEPLOY / name
    subprocess.run(["bash", "-n", path], check=True)
    lines = path.read_text().splitlines()
    asked = [number for number, line in enumerate(lines) if line.startswith("#SBATCH --")]
    first = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert len(asked) > 5 and max(asked) < first  # Slurm reads none behind the first command
    for told in ({}, {"HARDNEG_STORE": "/shared"}):
        done = subprocess.run(["bash", path], env={"PATH": "/usr/bin:/bin", **told}, capture_output=True, text=True)
        assert done.returncode and ("HARDNEG_STORE=" if not told else "name a recipe") in done.stderr


def test_their_commands_have_the_options_that_are_given() -> None:
    told = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text())["spec"]["entrypoint"].split()
    assert told[0] == "hardneg"
    done = CliRunner().invoke(app, [*told[1:3], "--help"], env={"COLUMNS": "200"})
    assert all(word in done.output for word in told if word.startswith("--"))
    line = [sys.executable, "-m", "ray.scripts.scripts", "symmetric-run", "--help"]
    helped = subprocess.run(line, capture_output=True)
    assert b"--min-nodes" in helped.stdout and b"--address" in helped.stdout
