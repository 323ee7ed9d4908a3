"""Nodes, the controller and sources fail while a run goes on."""

from __future__ import annotations

import json
import re

import yaml
from cluster_bench import CODES, KNEES, Bench
from throwaway_slurm import Cluster, call

IN_TROUBLE = re.compile("down|drain|drng|fail")


def test_node_drained_mid_run_ends_its_job_and_the_rest_waits_for_another_node(bench: Bench) -> None:
    run, frozen = bench.start_with_one_running_and_one_waiting()
    call("scontrol", "update", "nodename=cpu1", "state=drain", "reason=test")
    try:
        (codes,) = bench.jobs("codes")
        call("scontrol", "release", str(codes.number))
        frozen.resume()
        bench.wait(lambda: bench.states("knees") == ["COMPLETED"], "the running job ends")
        assert bench.states("codes") == ["PENDING"]
        assert run.poll() is None, "Snakemake waits"
    finally:
        call("scontrol", "update", "nodename=cpu1", "state=resume")
    assert bench.finish(run) == 0, bench.log()[-5000:]
    assert [bench.states("knees"), bench.states("codes")] == [["COMPLETED"], ["COMPLETED"]]


def test_controller_restarted_mid_run_loses_no_job_and_doubles_none(bench: Bench, cluster: Cluster) -> None:
    run, frozen = bench.start_with_one_running_and_one_waiting()
    cluster.stop_daemon("slurmctld")
    frozen.resume()  # it ends, or not, while nobody is there to hear it
    bench.wait(lambda: not bench.processes("build", "knees"), "the job's work ends")
    cluster.start_controller()
    (codes,) = bench.jobs("codes")
    call("scontrol", "release", str(codes.number))
    assert bench.finish(run) == 0, bench.log()[-5000:]
    assert [bench.states("knees"), bench.states("codes")] == [["COMPLETED"], ["COMPLETED"]]


def test_node_lost_mid_run_costs_one_attempt(bench: Bench, cluster: Cluster) -> None:
    run, _ = bench.start_with_one_running_and_one_waiting()
    call("scontrol", "update", "partitionname=cpu", "nodes=cpu1,gpu1")
    call("scontrol", "update", "nodename=cpu1", "state=down", "reason=test")
    try:
        (codes,) = bench.jobs("codes")
        call("scontrol", "release", str(codes.number))
        assert bench.finish(run) == 0, bench.log()[-5000:]
    finally:
        call("scontrol", "update", "partitionname=cpu", "nodes=cpu1")
        # refused if the node is back already, because its slurmd has reported again
        call("scontrol", "update", "nodename=cpu1", "state=resume", check=False)
        # Slurm may still clear up after the lost job (state comp); it gives the node jobs all the same.
        cluster.wait(lambda: not IN_TROUBLE.search(call("sinfo", "-h", "-n", "cpu1", "-o", "%t")), "cpu1 is back")
    assert [(job.state, job.node) for job in bench.jobs("knees")] == [("NODE_FAIL", "cpu1"), ("COMPLETED", "gpu1")]
    assert bench.states("codes") == ["COMPLETED"]


def test_one_source_blocked_and_the_rest_finishes(bench: Bench) -> None:
    manifest = bench.folder / "manifests" / "tiny" / "datasets" / "knees.yaml"
    content = yaml.safe_load(manifest.read_text())
    content["files"][0]["sha256"] = "0" * 64
    manifest.write_text(yaml.safe_dump(content))
    score = "results/scores/random/Codes_t2t.json"
    assert bench.run(KNEES, score) == 0, bench.log()[-5000:]
    blocked = json.loads((bench.folder / KNEES).read_text())["status"]
    assert blocked["state"] != "ok"
    assert "sha256" in blocked["reason"] or "digest" in blocked["reason"]
    assert blocked["remedy"]
    assert json.loads((bench.folder / score).read_text())["status"]["state"] == "ok"
    assert (bench.folder / CODES).exists()
    assert set(bench.states()) == {"COMPLETED"}
