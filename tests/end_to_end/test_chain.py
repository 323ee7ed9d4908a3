"""The whole chain on made-up arrays, through Snakemake, without network."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from PIL import Image
from tiny_benchmark import WHEEL, environment, make_workspace, medheb, roots, snakemake


def jobs(result: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Jobs by rule that a dry run lists."""
    found = re.findall(r"^(\w+)\s+(\d+)$", result.stdout + result.stderr, flags=re.MULTILINE)
    return {rule: int(count) for rule, count in found if rule not in {"total", "all"}}


def test_everything_is_there_and_the_constant_model_scores_chance(finished: Path) -> None:
    report = finished / "results" / "report"
    assert {path.name for path in report.iterdir()} >= {"index.html", "leaderboard.csv", "summary.json"}
    for task in ("Organ_cls", "Organ_i2i", "Codes_t2t"):
        score = json.loads((finished / "results" / "scores" / "constant" / f"{task}.json").read_text())
        assert score["status"]["state"] == "ok"
        assert score["queries"] >= 10
        for metric in score["metrics"].values():
            assert metric["value"] == pytest.approx(metric["chance"], abs=1e-9)
        table = pd.read_parquet(finished / "results" / "scores" / "constant" / f"{task}.parquet")
        assert table["hit@1"].mean() == pytest.approx(score["metrics"]["hit@1"]["value"], abs=1e-12)
        assert (table["tied"] == table["pool"]).all()


def test_tasks_are_made_by_the_rules_and_their_quality_is_in_the_report(finished: Path) -> None:
    report = finished / "results" / "report"
    quality = pd.read_csv(report / "quality.csv").set_index("task")
    assert set(quality.index) == {"Organ_cls", "Organ_i2i", "Codes_t2t"}
    assert set(quality["task_index"]) == {"rebuilt"}
    assert (quality["rows"] >= 10).all()
    section = (report / "index.html").read_text().partition('<section id="quality"')[2].partition("</section>")[0]
    assert all(task in section for task in quality.index)


def test_a_second_run_has_nothing_to_do_and_embeds_nothing(run: Path) -> None:
    assert "Nothing to be done" in snakemake(run, "all").stderr
    receipt = run / "results" / "embeddings" / "random" / "person_x.json"
    before = json.loads(receipt.read_text())
    assert before["computed"] == before["inputs"] > 0
    result = medheb(run, "embed", "random", "person_x")
    assert result.returncode == 0, result.stderr
    assert json.loads(receipt.read_text())["computed"] == 0


def test_deleted_data_set_is_rebuilt_with_its_descendants_only(run: Path) -> None:
    before = roots(run)
    shutil.rmtree(run / "results" / "MedHEB" / "3D_Images" / "Person_Y")
    planned = jobs(snakemake(run, "all", "-n", "--quiet", "rules"))
    assert (planned["build_images"], planned["build_index"], planned["record_digests"]) == (1, 1, 1)
    assert (planned["embed_inputs"], planned["evaluate_task"]) == (2, 2)
    assert "fetch_source" not in planned
    assert snakemake(run, "all").returncode == 0
    assert roots(run) == before


def test_missing_image_is_built_again_on_demand(run: Path) -> None:
    before = roots(run)
    next((run / "results" / "MedHEB" / "3D_Images" / "Person_Y").rglob("*.png")).unlink()
    assert medheb(run, "audit", "verify").returncode != 0
    assert "will be built again" in medheb(run, "rebuild", "person_y").stdout
    assert snakemake(run, "all").returncode == 0
    assert roots(run) == before
    assert medheb(run, "audit", "verify").returncode == 0


def test_protocol_can_be_switched_in_place(run: Path) -> None:
    codes = run / "results" / "scores" / "random" / "Codes_t2t.json"
    assert snakemake(run, "all", "--config", "protocol=release").returncode == 0
    released = json.loads(codes.read_text())
    assert (released["status"]["state"], released["protocol"]) == ("ok", "release")
    constant = json.loads((run / "results" / "scores" / "constant" / "Codes_t2t.json").read_text())
    assert constant["metrics"]["hit@1"]["value"] == 1.0, "as published, ties favour the positive"
    assert snakemake(run, "all").returncode == 0
    assert json.loads(codes.read_text())["protocol"] == "corrected"


def test_changed_setting_reruns_what_it_affects_only(run: Path) -> None:
    path = run / "manifests" / "tiny" / "tasks.tsv"
    path.write_text(path.read_text().replace("Which organ is this?", "What is in the centre?"))
    planned = jobs(snakemake(run, "all", "-n", "--quiet", "rules"))
    assert planned["build_index"] == 1
    assert "build_images" not in planned
    title = run / "manifests" / "tiny" / "datasets" / "codes.yaml"
    title.write_text(title.read_text().replace("Made-up source codes", "Another title"))
    path.write_text(path.read_text().replace("What is in the centre?", "Which organ is this?"))
    assert jobs(snakemake(run, "all", "-n", "--quiet", "rules")) == {"collect_report": 1}


def test_audit_tells_identical_equivalent_and_mismatch(run: Path) -> None:
    clean = medheb(run, "audit", "verify")
    assert clean.returncode == 0, clean.stdout + clean.stderr
    image = next((run / "results" / "MedHEB" / "3D_Images" / "Person_X").rglob("*.png"))
    content = image.read_bytes()
    with Image.open(image) as picture:
        pixels = picture.copy()
    pixels.save(image, compress_level=1)
    assert image.read_bytes() != content
    same = medheb(run, "audit", "verify")
    assert same.returncode == 0, same.stdout
    assert "EQUIVALENT" in same.stdout
    assert image.name in same.stdout
    pixels.putpixel((0, 0), 255 - pixels.getpixel((0, 0)))
    pixels.save(image)
    changed = medheb(run, "audit", "verify")
    assert changed.returncode != 0
    assert "MISMATCH" in changed.stdout
    assert image.name in changed.stdout


def test_index_that_names_a_missing_image_is_a_reason_in_the_report(run: Path) -> None:
    index = run / "results" / "MedHEB" / "2D_Task" / "Organ" / "Organ_test.json"
    rows = json.loads(index.read_text())
    rows[0]["qry_img_path"] = "Person_X/crops/nowhere.png"
    index.write_text(json.dumps(rows))
    result = snakemake(run, "all")
    assert result.returncode == 0, result.stderr
    summary = (run / "results" / "report" / "summary.json").read_text()
    assert "names image 3D_Images/Person_X/crops/nowhere.png" in summary
    score = json.loads((run / "results" / "scores" / "random" / "Organ_cls.json").read_text())
    assert score["status"]["state"] == "failed"
    other = json.loads((run / "results" / "scores" / "random" / "Codes_t2t.json").read_text())
    assert other["status"]["state"] == "ok"


def test_wrong_digest_blocks_one_source_and_strict_says_so(tmp_path: Path) -> None:
    run = make_workspace(tmp_path / "run")
    path = run / "manifests" / "tiny" / "datasets" / "codes.yaml"
    content = yaml.safe_load(path.read_text())
    right = content["files"][0]["sha256"]
    content["files"][0]["sha256"] = "0" * 64
    path.write_text(yaml.safe_dump(content))
    result = snakemake(run, "all")
    assert result.returncode == 0, result.stderr
    summary = (run / "results" / "report" / "summary.json").read_text()
    assert WHEEL in summary
    assert json.loads((run / "results" / "scores" / "random" / "Organ_cls.json").read_text())["status"]["state"] == "ok"
    assert snakemake(run, "all", "--config", "strict=true").returncode != 0
    content["files"][0]["sha256"] = right
    path.write_text(yaml.safe_dump(content))
    assert "codes" in medheb(run, "retry").stdout
    assert snakemake(run, "all", "--config", "strict=true").returncode == 0


def test_killed_at_random_moments_and_started_again_gives_the_same_roots(finished: Path, tmp_path: Path) -> None:
    run = make_workspace(tmp_path / "run")
    moments = random.Random(11)
    command = [sys.executable, "-m", "medheb", "run", "--cores", "2"]
    for _ in range(4):
        process = subprocess.Popen(
            command,
            cwd=run,
            env=environment(run),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moments.uniform(2, 9))
        # the driver, Snakemake and all jobs at once, as a lost machine would
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        process.wait()
    result = subprocess.run(command, cwd=run, env=environment(run), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert roots(run) == roots(finished)
    assert medheb(run, "audit", "verify").returncode == 0


def test_only_the_driver_killed_leaves_nothing_that_stops_the_next_run(finished: Path, tmp_path: Path) -> None:
    run = make_workspace(tmp_path / "run")
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "all"],
        cwd=run,
        env=environment(run),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(6)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(3)  # jobs that outlived their driver end by themselves
    assert any((run / ".snakemake" / "locks").iterdir())
    result = medheb(run, "run", "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "going on where it stopped" in result.stdout
    assert roots(run) == roots(finished)


def test_other_workers_hash_seed_locale_and_time_zone_give_the_same_roots(finished: Path, tmp_path: Path) -> None:
    run = make_workspace(tmp_path / "elsewhere" / "run")
    result = snakemake(run, "all", "--cores", "1", PYTHONHASHSEED="7", LC_ALL="C", TZ="Asia/Tokyo")
    assert result.returncode == 0, result.stderr
    assert roots(run) == roots(finished)


def test_two_drivers_in_one_folder_are_refused(run: Path) -> None:
    inventory = run / "results" / "MedHEB" / "Text_Data" / "codes" / "codes.inventory.json"
    inventory.unlink()
    first = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "all"],
        cwd=run,
        env=environment(run),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    locks = run / ".snakemake" / "locks"
    while first.poll() is None and not (locks.is_dir() and any(locks.iterdir())):
        time.sleep(0.1)
    second = medheb(run, "run", "--cores", "1")
    first.wait()
    assert second.returncode == 1
    assert re.search(r"is in use by Snakemake process \d+\. Wait for it", second.stderr)
