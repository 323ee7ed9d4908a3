"""The three example clusters: each way to ask for a GPU reaches Slurm, which hands out no more than there are."""

from __future__ import annotations

import json

import psutil
import pytest
import yaml
from cluster_bench import Bench
from throwaway_slurm import Cluster, call

from conftest import apply

# The rules of the workflow ask the same two functions. Each job writes where it ran, with which device, and when.
SNAKEFILE = """
from medheb.cluster.rules import gpu_resources, runs_here


rule all:
    input:
        expand("probe/{name}.json", name=config["names"].split("+")),
        "probe/fetched",
    localrule: True


rule embed_inputs:
    output:
        "probe/{name}.json",
    resources:
        **gpu_resources(workflow, lambda wildcards: int(wildcards.name.startswith("gpu"))),
    shell:
        '''printf '["%s", "%s", %s' $SLURMD_NODENAME "${{CUDA_VISIBLE_DEVICES:-}}" $(date +%s.%N) > {output}.part
        sleep 4
        printf ', %s]' $(date +%s.%N) >> {output}.part
        mv {output}.part {output}'''


rule fetch_source:
    output:
        "probe/fetched",
    localrule: runs_here(workflow, "fetch_source")
    shell:
        "touch {output}"
"""
# sizes of the real rules, cut down to what a probe needs
SMALL = ("--set-resources", "embed_inputs:mem_mb=1000", "embed_inputs:runtime=5")


@pytest.mark.parametrize(
    ("name", "gpus", "asked", "nodes", "at_once"),
    [
        ("gpus", 5, "gres:gpu:1", {"gpu1", "gpu2"}, 4),
        ("gres", 1, "gres:gpu:1", {"gpu1", "gpu2"}, 4),
        ("typed", 3, "gres:gpu:h100:1", {"gpu1"}, 2),
    ],
)
def test_example_cluster_gets_its_gpus_and_never_more_than_there_are(
    bench: Bench, cluster: Cluster, name: str, gpus: int, asked: str, nodes: set[str], at_once: int
) -> None:
    file = bench.folder / "config" / "clusters" / f"{name}.yaml"
    if not cluster.accounting:
        content = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump(content | {"account": None}))
    assert apply(bench, name) == 0
    (bench.folder / "probe.smk").write_text(SNAKEFILE)
    wanted = [f"gpu{number}" for number in range(gpus)]
    names = "+".join([*wanted, "cpu"])
    profile = yaml.safe_load((bench.folder / "slurm" / "config.v9+.yaml").read_text())
    fetch = profile["set-resources"]["fetch_source"].get("slurm_partition")
    more = ("--set-resources", *SMALL[1:], *([f"fetch_source:slurm_partition={fetch}"] if fetch else []))
    assert bench.run("-s", "probe.smk", *more, "--config", f"names={names}", "--", "all") == 0, bench.log()[-5000:]

    said = {word: json.loads((bench.folder / "probe" / f"{word}.json").read_text()) for word in [*wanted, "cpu"]}
    assert said["cpu"][:2] == ["cpu1", ""]
    assert {said[word][0] for word in wanted} <= nodes
    assert all(said[word][1].isdigit() for word in wanted), "each GPU job has a device of its own"
    spans = [(said[word][2], said[word][3]) for word in wanted]
    assert max(sum(start <= moment < end for start, end in spans) for moment, _ in spans) <= at_once
    for one in bench.jobs("embed_inputs"):
        assert (one.partition, bench.asked_gpus(one)) in {("gpu", asked), ("cpu", "")}
    assert [one.partition for one in bench.jobs("fetch_source")] == (["transfer"] if fetch else [])
    if name == "gres" and cluster.accounting:
        assert {
            call("squeue", "-h", "-t", "all", "-j", str(job.number), "-o", "%a").strip() for job in bench.jobs()
        } == {"medical"}


def test_the_cluster_listens_on_the_loopback_only(cluster: Cluster) -> None:
    for name, process in cluster.daemons.items():
        for connection in psutil.Process(process.pid).net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip == "127.0.0.1", f"{name} listens on {connection.laddr}"
