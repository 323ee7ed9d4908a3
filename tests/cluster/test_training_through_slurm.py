"""MedEmb's training as a job with two ranks, on one machine and on two: the model of a local run with two ranks."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import yaml
from cluster_bench import Bench, scores
from safetensors.torch import load_file
from tiny_benchmark import copy_workspace, snakemake

sys.path.append(str(Path(__file__).parents[1] / "train"))
from training_workspace import MERGED, register, trained, with_training

# Sizes of the real rules, cut down to this machine.
SMALL = (
    *("--set-threads", "fit_medemb=2"),
    *("--set-resources", "fit_medemb:cpus_per_task=2", "fit_medemb:mem_mb=4000", "fit_medemb:runtime=10"),
    *("merge_medemb:mem_mb=2000", "embed_inputs:mem_mb=2000", "embed_inputs:cpus_per_task=2"),
)
SCORE = "results/scores/medemb_tiny_rebuilt/Codes_t2t.json"


@pytest.fixture(scope="module")
def local(fetched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training on this machine."""
    folder = with_training(copy_workspace(fetched, tmp_path_factory.mktemp("local") / "run"))
    result = snakemake(folder, "train_medemb", "--cores", "2")
    assert result.returncode == 0, (result.stdout + result.stderr)[-5000:]
    return folder


def adapter(folder: Path) -> dict[str, object]:
    return dict(load_file(folder / "results/medemb/tiny/adapter/adapter_model.safetensors"))


@pytest.mark.parametrize(
    ("nodes", "asked", "where"), [(1, "gres:gpu:2", {"gpu1", "gpu2"}), (2, "gres:gpu:1", {"gpu[1-2]"})]
)
def test_through_slurm_two_ranks_learn_what_they_learn_here(
    bench: Bench, local: Path, nodes: int, asked: str, where: set[str]
) -> None:
    with_training(bench.folder, nodes=nodes)
    shutil.rmtree(bench.folder / "results")
    # All that comes before the training, with Snakemake's memory of it.
    for name in ("results", ".snakemake", "weights"):
        shutil.copytree(local / name, bench.folder / name, dirs_exist_ok=True)
    made = bench.folder / "results" / "medemb" / "tiny"
    for name in ("checkpoints", "adapter", "merged"):
        shutil.rmtree(made / name)
    (made / "training.json").unlink()
    assert bench.run(*SMALL, "--", "train_medemb") == 0, bench.log()[-5000:]
    (job,) = bench.jobs("fit_medemb")
    assert (job.state, bench.asked_gpus(job)) == ("COMPLETED", asked)
    assert job.node in where
    assert (bench.folder / MERGED).is_file()
    assert trained(bench.folder) == trained(local)
    assert trained(local)["pairs"] > 10
    first, second = adapter(bench.folder), adapter(local)
    assert first.keys() == second.keys()
    assert max(float((first[name] - second[name]).abs().max()) for name in first) <= 1e-6
    if nodes == 1:
        (entry,) = yaml.safe_load((bench.folder / MERGED).with_name("entry.yaml").read_text())["models"]
        register(bench.folder, entry)
        assert bench.run(*SMALL, "--", SCORE) == 0, bench.log()[-5000:]
        assert next(iter(scores(bench.folder / "results").values()))[0] == "ok"
