"""A small checkpoint, trained on the demo's training split by the workflow, against itself before, on the demo's tests.

Needs a finished demo: `make demo`, then `make train-demo`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from math import comb
from pathlib import Path

import pytest
import yaml
from words_checkpoint import make_words_qwen3vl

from medheb.audit.results import read_ranks
from medheb.evaluate.score import read_score
from medheb.manifest.load import load_tasks
from medheb.train.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "results" / "demo"
CONFIG = "config/training.yaml"
UNTRAINED, TRAINED = "untrained", "medemb_small_rebuilt"
# Its test has codes that no training row has.
TASK = "ICD10CM_t2t"
# All tasks of sources that nothing is trained on, pictures included, and the one of them that is text.
HELD_OUT = [task.task for task in load_tasks(ROOT / "manifests/demo/tasks.tsv").values() if task.split == "heldout"]
TEXT_HELD_OUT = "HPO_t2t"
BY_CHANCE, HELD_OUT_BY_CHANCE = 1e-9, 1e-6
SETTINGS = {
    "manifests": "manifests/demo",
    "paths": {"sources": str(DEMO / "sources"), "benchmark": "results/demo/MedHEB", "results": "results/demo"},
    "accept": "open",
    "embed": {"device": "cpu"},
    "evaluate": {"bootstrap_resamples": 200},
    # Of the published settings, those that suit weights of random numbers: a larger rate, a softer softmax.
    "medemb": {
        "bases": {"small": UNTRAINED},
        "sizes": ["small"],
        "ranks": 1,
        "workers": 0,
        "learning_rate": 5e-3,
        "temperature": 0.05,
        "gradient_checkpointing": False,
        "batches": {"nominal_pairs": 64, "longest": 256, "most_pairs": 128},
    },
}


def by_chance(better: int, worse: int) -> float:
    """Probability of at least so many gains if training did nothing: each changed query is then a toss of a coin."""
    changed = better + worse
    return sum(comb(changed, gains) for gains in range(better, changed + 1)) / 2**changed


def snakemake(folder: Path, *targets: str) -> None:
    command = [sys.executable, "-m", "snakemake", *targets, "--configfile", CONFIG, "--cores", "1"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    result = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-5000:]


def entry_of(weights: Path) -> dict[str, object]:
    return {
        "id": UNTRAINED,
        "title": "Small and untrained",
        "adapter": {
            "name": "qwen3vl",
            "weights": {"kind": "folder", "path": str(weights)},
            "volume_pixels": 131072,
            "image_pixels": [1024, 16384],
        },
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the demo's pictures, texts and tasks, in which the workflow trained and scored."""
    if not (DEMO / "audit" / "roots.json").is_file():
        pytest.fail("there is no finished demo to train on: run `make demo` first")
    folder = tmp_path_factory.mktemp("training") / "run"
    sets = folder / "manifests" / "demo"
    sets.mkdir(parents=True)
    for name in ("Snakefile", "workflow", "profiles", "envs", "scripts", "manifests/protocols"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("datasets", "rules.yaml", "tasks.tsv"):
        (sets / name).symlink_to(ROOT / "manifests" / "demo" / name)
    shutil.copytree(ROOT / "config", folder / "config")
    (folder / CONFIG).write_text(yaml.safe_dump(SETTINGS))
    shutil.copytree(DEMO / "MedHEB", folder / "results" / "demo" / "MedHEB", symlinks=True)
    models = sets / "models.yaml"
    canaries = [
        {"id": name, "title": f"{name} vectors", "canary": True, "adapter": {"name": name}}
        for name in ("random", "constant")
    ]
    models.write_text(yaml.safe_dump({"models": canaries}))
    snakemake(folder, "train_data")
    weights = make_words_qwen3vl(folder / "weights", texts_of(rows_of(folder)))
    models.write_text(yaml.safe_dump({"models": [*canaries, entry_of(weights)]}))
    snakemake(folder, "train_medemb")
    made = yaml.safe_load((folder / "results/demo/medemb/small/merged/entry.yaml").read_text())["models"]
    models.write_text(yaml.safe_dump({"models": [*canaries, entry_of(weights), *made]}))
    assert [model["id"] for model in made] == [TRAINED]
    snakemake(
        folder,
        *(f"results/demo/scores/{model}/{task}.json" for task in (TASK, *HELD_OUT) for model in (UNTRAINED, TRAINED)),
    )
    return folder


def rows_of(folder: Path) -> list[dict[str, list]]:
    rows: list[dict[str, list]] = []
    for path in sorted((folder / "results/demo/MedHEB/Train_Data").glob("*.jsonl")):
        rows += [json.loads(line) for line in path.read_text().splitlines()]
    return rows


def texts_of(rows: list[dict[str, list]]) -> list[str]:
    return [message["content"] for row in rows for message in (row["messages"][-1], row["positive_messages"][0][0])]


@pytest.mark.slow
def test_training_rows_show_nothing_of_the_tests(trained: Path) -> None:
    """No code of a test, and no title of one; the plan uses every row."""
    demo = trained / "results/demo/MedHEB"
    records = [json.loads(line) for line in (demo / "Text_Data/icd10cm/records.jsonl").read_text().splitlines()]
    codes = {(record["query"], record["target"]): record["group"] for record in records}
    tested = {
        (row["qry_text"], row["tgt_text"][0])
        for row in json.loads((demo / "Text_Task/ICD10CM/ICD10CM_test.json").read_text())
    }
    rows = rows_of(trained)
    learned = {(row["messages"][-1]["content"], row["positive_messages"][0][0]["content"]) for row in rows}
    assert len(tested) == 300
    assert len(rows) > 8000
    assert {codes[pair] for pair in tested}.isdisjoint(codes[pair] for pair in learned)
    assert {title for _, title in tested}.isdisjoint(title for _, title in learned)
    plan = Plan.model_validate_json((trained / "results/demo/medemb/small/plan.json").read_text())
    assert {file.source for file in plan.files} == {"icd10cm"}
    assert plan.pairs == plan.rows == len(rows)


@pytest.mark.slow
def test_training_raises_hit_at_1_on_codes_it_has_not_seen(trained: Path) -> None:
    """By more than coin tosses over the changed queries would once in 10^9 times."""
    better, worse = changes(trained, TASK)
    assert by_chance(better, worse) < BY_CHANCE


@pytest.mark.slow
def test_training_raises_hit_at_1_on_the_held_out_tasks(trained: Path) -> None:
    """Over the queries of all of them together, none left out, and on the texts of a source that it never saw.

    Once in 10^6 times: most of these queries are pictures, of which a training on texts tells nothing, so they only
    add tosses of a coin.
    """
    changed = {task: changes(trained, task) for task in HELD_OUT}
    better, worse = (sum(one) for one in zip(*changed.values(), strict=True))
    print(f"held-out tasks together: {better} won, {worse} lost")
    assert len(HELD_OUT) == 6
    assert by_chance(better, worse) < HELD_OUT_BY_CHANCE
    assert by_chance(*changed[TEXT_HELD_OUT]) < BY_CHANCE


def changes(folder: Path, task: str) -> tuple[int, int]:
    """Queries of a task that training won, and those that it lost."""
    scores = folder / "results/demo/scores"
    before, after = (read_score(scores / model / f"{task}.json").metrics["hit@1"] for model in (UNTRAINED, TRAINED))
    first, then = (hits(scores / model / f"{task}.parquet") for model in (UNTRAINED, TRAINED))
    better = sum(now and not was for was, now in zip(first, then, strict=True))
    worse = sum(was and not now for was, now in zip(first, then, strict=True))
    print(
        f"{task}: Hit@1 {before.value:.3f} -> {after.value:.3f}, chance {before.chance:.3f}, {better} won, {worse} lost"
    )
    assert after.value - before.value == pytest.approx((better - worse) / len(first), abs=0.03), "ties are rare"
    return better, worse


def hits(path: Path) -> list[bool]:
    """Whether the right candidate of each query is above all others."""
    ranks = read_ranks(path)
    return [not above and tied == 1 for above, tied in zip(ranks["above"], ranks["tied"], strict=True)]
