"""Recording: what is written, that it repeats, that the inventory is not believed, and that nothing leaks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from audit_bench import BLOCKED, FINGERPRINT, FOLDERS, OK, PICTURES, SECRETS, Bench, encode, pixels, unit, write_roots

from medheb.audit.environment import cpu_model, describe_environment
from medheb.audit.record import record_digests
from medheb.audit.results import score_content
from medheb.audit.schema import read_roots, read_source_record, roots_path
from medheb.audit.verify import verify
from medheb.build.inventory import read_inventory, write_inventory
from medheb.core.digests import json_digest, merkle_root, read_sha256sums, sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.embed.receipt import Receipt, write_receipt
from medheb.evaluate.score import Score, read_score, write_score
from medheb.fetch.complete import Complete, write_complete
from medheb.manifest.dataset import Dataset, Place


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_audit_folder_holds_what_the_contract_says(recorded: Bench) -> None:
    assert sorted(tree(recorded.layout.audit)) == [
        "SHA256SUMS-index",
        "alpha/SHA256SUMS",
        "alpha/digests.json",
        "beta/digests.json",
        "delta/SHA256SUMS",
        "delta/digests.json",
        "environment.json",
        "gamma/digests.json",
        "provenance.json",
        "roots.json",
    ]
    alpha = read_source_record(recorded.layout.audit / "alpha" / "digests.json")
    assert sorted(alpha.files) == sorted(f"2D_Images/alpha/{name}" for name in (*PICTURES["alpha"], "notes.json"))
    assert alpha.archives == {"alpha.whl": sha256_bytes(b"alpha")}
    assert (alpha.state, alpha.recipe, alpha.recipe_version, alpha.file_count) == ("built", "pictures", 2, 6)
    digests = alpha.files["2D_Images/alpha/a.png"]
    assert sha256_bytes(recorded.image("a.png").read_bytes()) == digests.L1
    assert digests.L2.startswith("pix1:")
    assert alpha.files["2D_Images/alpha/notes.json"].L2.startswith("json1:")
    assert alpha.roots["L2"] == merkle_root({path: found.L2 for path, found in alpha.files.items()})


def test_roots_json_states_one_root_a_source_and_level(recorded: Bench) -> None:
    roots = read_roots(roots_path(recorded.layout))
    assert sorted(roots.sources) == sorted(FOLDERS)
    for name, source in roots.sources.items():
        assert sorted(source.roots) == ([] if name == "beta" else ["L0", "L1", "L2"])
    assert sorted(roots.overall) == ["L0", "L1", "L2"]
    assert sorted(roots.index.roots) == ["L1", "L2"]
    assert sorted(roots.scores.roots) == ["L2"]
    assert roots.embeddings.entries["random/alpha"].count == len(PICTURES["alpha"])
    assert roots.index.entries["alpha_i2i"].count == len(PICTURES["alpha"])


def test_blocked_source_says_why_everywhere(recorded: Bench) -> None:
    beta = read_source_record(recorded.layout.audit / "beta" / "digests.json")
    assert (beta.state, beta.reason, beta.remedy) == ("not-built", "index: no network", "Connect and run again")
    roots = read_roots(roots_path(recorded.layout))
    for entry in (
        roots.index.entries["beta_i2i"],
        roots.scores.entries["random/beta_i2i"],
        roots.embeddings.entries["random/beta"],
    ):
        assert (entry.state, entry.reason, entry.digests) == ("not-built", "index: no network", {})


def test_blocked_source_whose_embedding_job_found_nothing_to_do_is_not_built(recorded: Bench) -> None:
    """Such a job ends well: there were no inputs. Its receipt must not make the audit say that something was built."""
    for model in recorded.run.models:
        receipt = Receipt(model=model, group="beta", status=OK, fingerprint=FINGERPRINT, inputs=0)
        write_receipt(recorded.layout.embedded(model, "beta"), receipt)
    entry = write_roots(recorded.run).embeddings.entries["random/beta"]
    assert (entry.state, entry.reason, entry.count) == ("not-built", "index: no network", 0)
    assert unit(verify(recorded.run), "embedded inputs").verdict == "NOT-BUILT"


def test_sha256sum_checks_the_sums(recorded: Bench) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    for sums in ("alpha/SHA256SUMS", "delta/SHA256SUMS", "SHA256SUMS-index"):
        command = ["sha256sum", "--strict", "-c", str((recorded.layout.audit / sums).resolve())]
        done = subprocess.run(command, cwd=recorded.layout.benchmark, capture_output=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count(b": OK") == len((recorded.layout.audit / sums).read_bytes().splitlines())
    recorded.image("new\nline.png").write_bytes(b"else")
    command = ["sha256sum", "-c", str((recorded.layout.audit / "alpha/SHA256SUMS").resolve())]
    done = subprocess.run(command, cwd=recorded.layout.benchmark, capture_output=True, env=environment)
    assert done.returncode == 1
    assert b"new\\nline.png: FAILED" in done.stdout


def test_sums_file_reads_back(recorded: Bench) -> None:
    text = (recorded.layout.audit / "alpha" / "SHA256SUMS").read_text(encoding="utf-8")
    record = read_source_record(recorded.layout.audit / "alpha" / "digests.json")
    assert read_sha256sums(text.split("\n")) == {path: digests.L1 for path, digests in record.files.items()}


def test_recording_twice_gives_the_same_bytes(recorded: Bench) -> None:
    before = tree(recorded.layout.audit)
    for name in reversed(FOLDERS):
        record_digests(recorded.run, name, workers=4)
    write_roots(recorded.run)
    assert tree(recorded.layout.audit) == before


def test_two_folders_and_other_seconds_and_cosines_give_the_same_roots(recorded: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path / "elsewhere")
    one = other.run.tasks["alpha_i2i"]
    other.score("random", one, len(PICTURES["alpha"]), OK, seconds=9.0, cosine=0.25)
    for name in FOLDERS:
        record_digests(other.run, name)
    write_roots(other.run)
    assert roots_path(other.layout).read_bytes() == roots_path(recorded.layout).read_bytes()


def test_a_rank_or_a_metric_changes_the_score_root(recorded: Bench) -> None:
    before = read_roots(roots_path(recorded.layout))
    recorded.score("random", recorded.run.tasks["alpha_i2i"], len(PICTURES["alpha"]), OK, above=1)
    write_roots(recorded.run)
    ranked = read_roots(roots_path(recorded.layout))
    path = recorded.layout.score("random", "alpha_i2i")
    score = read_score(path)
    metric = score.metrics["hit@1"].model_copy(update={"value": 0.5})
    write_score(path, score.model_copy(update={"metrics": {**score.metrics, "hit@1": metric}}))
    write_roots(recorded.run)
    scored = read_roots(roots_path(recorded.layout))
    assert len({before.overall["L2"], ranked.overall["L2"], scored.overall["L2"]}) == 3
    assert before.overall["L1"] == ranked.overall["L1"] == scored.overall["L1"]


def test_last_bits_of_a_mean_do_not_count(recorded: Bench) -> None:
    score = read_score(recorded.layout.score("random", "alpha_i2i"))

    def with_value(value: float) -> Score:
        metric = score.metrics["hit@1"].model_copy(update={"value": value})
        return score.model_copy(update={"metrics": {**score.metrics, "hit@1": metric}})

    assert score_content(with_value(0.1 + 0.2)) == score_content(with_value(0.3))
    assert json_digest(score_content(with_value(-0.0))) == json_digest(score_content(with_value(0.0)))
    assert score_content(with_value(0.3)) != score_content(with_value(0.300001))


def test_another_encoder_keeps_the_content_roots(recorded: Bench) -> None:
    before = read_roots(roots_path(recorded.layout))
    recorded.build("alpha", level=1)
    recorded.evaluate("alpha")
    record_digests(recorded.run, "alpha")
    write_roots(recorded.run)
    after = read_roots(roots_path(recorded.layout))
    assert after.overall["L2"] == before.overall["L2"]
    assert after.overall["L0"] == before.overall["L0"]
    assert after.overall["L1"] != before.overall["L1"]
    assert after.embeddings.roots["L1"] != before.embeddings.roots["L1"]


@pytest.mark.parametrize("source", ["alpha", "gamma"])
def test_pictures_that_tasks_name_at_a_further_place_are_the_same_inputs(recorded: Bench, source: str) -> None:
    """PanNuke's regions lie in a folder of their own in the layout, which is a link into the source's folder."""
    before = read_roots(roots_path(recorded.layout)).embeddings.entries
    folder = {"alpha": "größe", "gamma": "p10"}[source]
    place = Place(path="2D_Images/elsewhere", folder=folder)
    manifest = recorded.run.datasets[source]
    recorded.run.datasets[source] = manifest.model_copy(update={"places": (place,)})
    one = recorded.run.tasks[f"{source}_i2i"]
    recorded.run.tasks[one.task] = one.model_copy(update={"image_root": "2D_Images"})
    path = recorded.layout.task_index(one.index)
    records = json.loads(path.read_bytes())
    for record in records:
        names = [record["qry_img_path"], *record["tgt_img_path"]]
        moved = [
            name.replace(f"{folder}/", "elsewhere/") if name.startswith(folder) else f"{source}/{name}"
            for name in names
        ]
        record["qry_img_path"], record["tgt_img_path"] = moved[0], moved[1:]
    assert any("elsewhere/" in record["qry_img_path"] for record in records)
    write_json(path, records)
    recorded.evaluate(source)
    after = write_roots(recorded.run).embeddings.entries
    for model in recorded.run.models:
        assert after[f"{model}/{source}"] == before[f"{model}/{source}"]
    assert unit(verify(recorded.run), "embedded inputs").verdict == "NOT-BUILT", "beta; all others are as recorded"


def test_restricted_source_leaks_nothing(recorded: Bench) -> None:
    assert not (recorded.layout.audit / "gamma" / "SHA256SUMS").exists()
    record = read_source_record(recorded.layout.audit / "gamma" / "digests.json")
    assert record.withheld
    assert (record.file_count, record.archive_count, record.files, record.archives) == (2, 1, {}, {})
    assert sorted(record.roots) == ["L0", "L1", "L2"]
    for name, content in tree(recorded.layout.audit).items():
        for secret in (*SECRETS, "2D_Images/gamma", "2D_Task/gamma", "gamma.whl"):
            assert secret.encode() not in content, (name, secret)
    for content in tree(recorded.layout.audit).values():
        for file in PICTURES["gamma"]:
            assert sha256_bytes(recorded.image(file, "gamma").read_bytes()).encode() not in content


def test_restricted_source_that_was_not_built_leaks_no_reason(bench: Bench) -> None:
    trouble = BLOCKED.model_copy(update={"reason": f"/data/p10000032/x.png says {SECRETS[-1]}", "remedy": SECRETS[-1]})
    bench.inventory("gamma", [], trouble)
    record_digests(bench.run, "gamma")
    content = (bench.layout.audit / "gamma" / "digests.json").read_text()
    assert not any(secret in content for secret in SECRETS)
    assert "withheld" in content


def test_a_source_that_becomes_restricted_loses_its_sums(recorded: Bench) -> None:
    recorded.run.datasets["delta"] = recorded.run.datasets["delta"].model_copy(update={"show_content": False})
    record_digests(recorded.run, "delta")
    assert sorted(tree(recorded.layout.audit / "delta")) == ["digests.json"]


@pytest.mark.parametrize(
    ("damage", "name", "fault"),
    [
        (lambda path: path.write_bytes(encode(pixels(1))), "d1.png", "MISMATCH: pixels differ"),
        (lambda path: path.write_bytes(encode(pixels(100 * ord("d")), 1)), "d1.png", "EQUIVALENT: bytes differ"),
        (lambda path: path.write_bytes(path.read_bytes()[:-4]), "d1.png", "UNREADABLE: cannot be decoded"),
        (lambda path: path.unlink(), "d1.png", "MISSING: is recorded but not there"),
        (lambda path: path.write_bytes(b""), "d1.png", "UNREADABLE: is empty"),
        (lambda path: shutil.copy(path, path.with_name("zz.png")), "zz.png", "EXTRA: is not recorded"),
    ],
    ids=["changed", "encoded", "cut", "deleted", "empty", "extra"],
)
def test_inventory_is_not_believed(bench: Bench, damage: Callable[[Path], object], name: str, fault: str) -> None:
    damage(bench.image("d1.png", "delta"))
    with pytest.raises(MedhebError, match=f"differs from the inventory of delta, {fault}") as caught:
        record_digests(bench.run, "delta")
    assert caught.value.where.endswith(f"2D_Images/alpha/{name}")
    assert "snakemake dataset_delta" in caught.value.remedy
    assert not (bench.layout.audit / "delta").exists()


def test_inventory_with_a_wrong_size_is_refused(bench: Bench) -> None:
    path = bench.layout.inventory(FOLDERS["delta"], "delta")
    inventory = read_inventory(path)
    first, second, *rest = inventory.files
    wrong = second.model_copy(update={"bytes": second.bytes + 1})
    write_inventory(path, inventory.model_copy(update={"files": (first, wrong, *rest)}))
    with pytest.raises(MedhebError, match=r"d2\.png: differs from the inventory of delta, MISMATCH: has \d+ bytes"):
        record_digests(bench.run, "delta")


def test_restricted_refusal_names_no_file(bench: Bench) -> None:
    bench.image(PICTURES["gamma"][0], "gamma").write_bytes(b"")
    with pytest.raises(MedhebError, match="source gamma: 1 files differ from its inventory") as caught:
        record_digests(bench.run, "gamma")
    assert not any(secret in str(caught.value) for secret in SECRETS)


def test_restricted_task_refusal_quotes_no_record(recorded: Bench) -> None:
    path = recorded.layout.task_index(recorded.run.tasks["gamma_i2i"].index)
    rows = json.loads(path.read_bytes())
    rows[0]["surprise"] = SECRETS[-1]
    write_json(path, rows)
    with pytest.raises(MedhebError, match="gamma_i2i: cannot be recorded") as caught:
        write_roots(recorded.run)
    assert not any(secret in str(caught.value) for secret in SECRETS)


def marker_of(manifest: Dataset) -> Complete:
    """The marker that fetch leaves for a source."""
    host = manifest.host
    return Complete(host=host, served_by=host, archives=manifest.files, unpack=manifest.unpack, root="", members=())


def test_what_fetch_unpacked_must_be_what_the_manifest_pins(bench: Bench) -> None:
    manifest = bench.run.datasets["alpha"]
    marker = bench.layout.sources / "alpha" / "COMPLETE.json"
    same = marker_of(manifest)
    write_complete(marker, same)
    record_digests(bench.run, "alpha")
    other = manifest.files[0].model_copy(update={"sha256": "0" * 64})
    write_complete(marker, same.model_copy(update={"archives": (other,)}))
    with pytest.raises(MedhebError, match=r"COMPLETE\.json: names an archive"):
        record_digests(bench.run, "alpha")


def test_an_archive_without_digest_takes_the_one_that_fetch_saw(bench: Bench) -> None:
    manifest = bench.run.datasets["alpha"]
    unknown = manifest.files[0].model_copy(update={"sha256": None})
    bench.run.datasets["alpha"] = manifest.model_copy(update={"files": (unknown,)})
    record_digests(bench.run, "alpha")
    path = bench.layout.audit / "alpha" / "digests.json"
    assert read_source_record(path).archives == {"alpha.whl": "unknown"}
    seen = marker_of(manifest)
    write_complete(bench.layout.sources / "alpha" / "COMPLETE.json", seen)
    record_digests(bench.run, "alpha")
    assert read_source_record(path).archives == {"alpha.whl": sha256_bytes(b"alpha")}


def test_a_manifest_that_names_no_file_of_its_host_leaves_them_open(bench: Bench) -> None:
    manifest = bench.run.datasets["alpha"]
    (known,) = manifest.files
    elsewhere = known.model_copy(update={"path": "q.csv", "url": "https://example.org/q.csv"})
    bench.run.datasets["alpha"] = manifest.model_copy(update={"files": (elsewhere,)})
    marker = marker_of(manifest).model_copy(update={"archives": (known, elsewhere)})
    write_complete(bench.layout.sources / "alpha" / "COMPLETE.json", marker)
    record_digests(bench.run, "alpha")
    record = read_source_record(bench.layout.audit / "alpha" / "digests.json")
    assert record.archives == dict.fromkeys(("alpha.whl", "q.csv"), sha256_bytes(b"alpha"))


def test_roots_need_every_record(bench: Bench) -> None:
    with pytest.raises(MedhebError, match=r"alpha/digests\.json: is missing.*snakemake audit"):
        write_roots(bench.run)


def test_parquet_that_does_not_fit_its_score_is_refused(recorded: Bench) -> None:
    one = recorded.run.tasks["alpha_i2i"]
    path = recorded.layout.score("random", one.task)
    write_score(path, read_score(path).model_copy(update={"queries": 99}))
    with pytest.raises(MedhebError, match=r"alpha_i2i\.parquet: has 5 rows, its score 99 queries"):
        write_roots(recorded.run)
    recorded.layout.per_query("random", one.task).write_bytes(b"PAR1")
    with pytest.raises(MedhebError, match=r"alpha_i2i\.parquet: is not a readable parquet"):
        write_roots(recorded.run)


def test_environment_names_encoders_and_packages_but_nobody(recorded: Bench) -> None:
    content = json.loads((recorded.layout.audit / "environment.json").read_bytes())
    known = {"medheb", "python", "implementation", "platform", "cpu", "gpus", "container", "encoders", "packages"}
    assert set(content) == known
    assert set(content["encoders"]) == {"pillow", "zlib", "libjpeg", "libjpeg_turbo", "isal"}
    assert content["packages"]["pillow"] == content["encoders"]["pillow"]
    assert content == describe_environment()
    assert os.uname().nodename not in json.dumps(content)


def test_cpu_model_without_a_kernel_list(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Some CPU @ 2 GHz\n")
    assert cpu_model(tmp_path / "cpuinfo") == "Some CPU @ 2 GHz"
    assert cpu_model(tmp_path / "none")
