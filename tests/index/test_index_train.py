"""Training rows: the published style, and nothing of a test in them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import make_benchmark as make
import pytest

from medheb.build.inventory import BuiltFile, write_inventory
from medheb.build.splits import NOT_PUBLISHED
from medheb.core.digests import sha256_file
from medheb.core.errors import MedhebError
from medheb.index.across import shared_pictures
from medheb.index.built import data_root
from medheb.index.commands import train_rows
from medheb.index.records import Record, read_records, record_writer
from medheb.index.run import build_index
from medheb.index.train import Kept, Trained, train_command, training_file
from medheb.manifest.load import Run

TESTS, TRAINS = make.SMALL


def read(run: Run, trained: Trained) -> list[dict[str, Any]]:
    lines = (run.layout.train_data / trained.file).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def make_run(folder: Path, **settings: Any) -> Run:
    run = make.benchmark_run(folder, **settings)
    for dataset in run.datasets.values():
        make.write_source(run, make.made_source(dataset))
    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, Trained]]:
    """Training rows of the whole benchmark."""
    run = make_run(tmp_path_factory.mktemp("training"))
    return run, {entry.task: entry for entry in train_command(run)}


def test_every_task_with_a_training_part_has_rows(trained: tuple[Run, dict[str, Trained]]) -> None:
    run, found = trained
    assert set(found) == {key for key, task in run.tasks.items() if task.split == "id"}
    # All of these two is the test.
    assert {key for key, entry in found.items() if not entry.status.ok} == {"MedicalQA", "PublicHealthQA"}
    assert len({entry.file for entry in found.values()}) == 96
    assert all(entry.rows == len(read(run, entry)) > 0 for entry in found.values() if entry.status.ok)
    summary = json.loads(run.layout.train_summary.read_text())
    assert [entry["task"] for entry in summary] == list(found)


def test_the_summary_changes_with_rows_and_pictures_that_keep_their_number(
    trained: tuple[Run, dict[str, Trained]],
) -> None:
    """Else nothing that is made of the rows would be made again."""
    run, found = trained
    for key in ("BloodMNIST_cls", "PubMedQA"):
        entry = found[key]
        assert entry.sha256 == sha256_file(run.layout.train_data / entry.file)
        assert entry.root == data_root(run, run.tasks[key])
    assert found["MedicalQA"].sha256 == ""


def test_rows_are_in_the_published_style(trained: tuple[Run, dict[str, Trained]]) -> None:
    run, found = trained
    label = read(run, found["BloodMNIST_cls"])[0]
    assert set(label) == {"messages", "images", "positive_messages"}
    system, user = label["messages"]
    assert system == {"role": "system", "content": run.tasks["BloodMNIST_cls"].qry_inst}
    assert user == {"role": "user", "content": f"<image>{run.tasks['BloodMNIST_cls'].qry_text}"}
    assert label["images"][0].startswith("./2D_Images/BloodMNIST/output_images/train/")
    assert label["positive_messages"][0][0]["role"] == "user"
    volume = read(run, found["BraTS_t1_to_t2"])[0]
    assert volume["messages"][1]["content"] == "<image>" * make.SLICES
    assert volume["positive_messages"] == [[{"role": "user", "content": "<image>" * make.SLICES}]]
    assert "/t1n/" in volume["images"][0]
    assert "/t2w/" in volume["positive_images"][0][0]
    linked = read(run, found["MIMIC-CXR-LT_t2i"])
    assert len(linked) == TRAINS
    assert linked[0]["positive_images"] == [["./2D_Images/MIMIC-CXR-T/p11/p0/s0/00000000.jpg"]]
    text = read(run, found["PubMedQA"])[0]
    assert set(text) == {"messages", "positive_messages"}


def test_nothing_of_a_test_is_in_the_training(trained: tuple[Run, dict[str, Trained]]) -> None:
    run, found = trained
    contents: dict[str, str] = {}
    groups: dict[str, tuple[str, str]] = {}
    listed: dict[str, tuple[str, str]] = {}
    for dataset in run.datasets.values():
        made = make.made_source(dataset)
        for name, records in made.records.items():
            for row in map(json.loads, records.splitlines()) if "train" in name else ():
                if "picture" in row and f"{dataset.images}/{row['picture']}" not in contents:
                    listed[f"{dataset.images}/{row['picture']}"] = (dataset.patients or dataset.id, str(row["group"]))
        for file in made.files:
            path = f"{dataset.images}/{file.path}"
            contents[path] = file.content
            owner = dataset.patients or dataset.id
            if file.facts.get("group") is not None:
                groups[path] = (owner, str(file.facts["group"]))
            for place in dataset.places:
                if file.path.startswith(f"{place.folder}/"):
                    other = f"{place.path}/{file.path.removeprefix(place.folder + '/')}"
                    contents[other], groups[other] = file.content, groups.get(path, ("", ""))
    tested: set[str] = set()
    texts: set[tuple[str, str]] = set()
    for key, task in run.tasks.items():
        assert build_index(run, key).ok
        for record in read_records(run.layout.task_index(task.index)):
            for item in (record.query, *record.candidates):
                tested.update(f"{task.image_root}/{path}" for path in item.images)
            if not record.query.images and not record.candidates[0].images:
                texts.add((record.qry_text, record.tgt_text[0]))
    tested_contents = {contents[path] for path in tested}
    tested_groups = {groups[path] for path in tested if path in groups}
    seen = 0
    for entry in found.values():
        for row in read(run, entry) if entry.status.ok else ():
            paths = [*row.get("images", []), *(path for own in row.get("positive_images", []) for path in own)]
            for path in (name.removeprefix("./") for name in paths):
                if path in listed:  # left in place and not built: known by their path and patient alone
                    assert path not in tested, path
                    assert listed[path] not in tested_groups, path
                    continue
                seen += 1
                assert contents[path] not in tested_contents, path
                assert groups.get(path) not in tested_groups, path
            said = (row["messages"][1]["content"], row["positive_messages"][0][0]["content"])
            assert said not in texts
    assert seen > 1000
    assert {path.split("/")[1] for path in listed} == {"MIMIC-CXR-T", "MIMIC-CXR-Report", "MIMIC-CXR-VQA", "PMC"}


def with_file(made: make.Made, split: str, **changes: Any) -> str:
    """Change the first file of a split and give its path; ``content`` is its pixels, the others are facts."""
    place = next(place for place, file in enumerate(made.files) if file.facts.get("split") == split)
    file = made.files[place]
    content = changes.pop("content", file.content)
    made.files[place] = file.model_copy(update={"content": content, "facts": file.facts | changes})
    return file.path


def first_of(made: make.Made, split: str) -> BuiltFile:
    return next(file for file in made.files if file.facts.get("split") == split)


def change_rows(made: make.Made, name: str, kind: str, *changes: dict[str, str]) -> None:
    """Change the first rows of a file of records."""
    rows = [json.loads(line) for line in made.records[name].splitlines()]
    for row, change in zip(rows, changes, strict=False):
        row |= change
    made.files = [file for file in made.files if file.path != name]
    made.rows(name, rows, kind=kind)
    made.files.sort(key=lambda file: file.path)


PROTOCOLS = pytest.mark.parametrize("protocol", ["corrected", "release"])


@PROTOCOLS
def test_overlaps_of_a_published_split_are_kept_under_release_and_named(tmp_path: Path, protocol: str) -> None:
    run = make.benchmark_run(tmp_path, protocol=protocol, datasets=("bloodmnist",))
    made = make.made_source(run.datasets["bloodmnist"])
    # A picture of the test stands in the training part too, under its own name.
    path = with_file(made, "train", content=first_of(made, "test").content)
    make.write_source(run, made)
    found = {entry.task: entry for entry in train_command(run, ["bloodmnist"])}["BloodMNIST_cls"]
    kept = protocol == "release"
    assert (found.rows, found.overlaps) == (TRAINS - (not kept), {"image": 1})
    split = "the train, val and test arrays of the MedMNIST archive"
    assert found.kept == ((Kept(source="bloodmnist", kind="image", rows=1, split=split),) if kept else ())
    assert found.removed == ({} if kept else {"published split": 1})
    listed = json.loads((run.layout.train_data / str(found.listed)).read_text())
    row = {"row": f"bloodmnist/{path}", "shows": ["image"], "tests": ["bloodmnist"], "kept": kept}
    assert listed["rows"] == [row | {"reason": "published split"}]
    assert not run.layout.train_summary.exists(), "the summary is of all tasks"


@PROTOCOLS
def test_overlaps_of_a_drawn_split_are_removed(tmp_path: Path, protocol: str) -> None:
    """Kvasir has no official split, so what ours has on both sides is in no training row."""
    run = make.benchmark_run(tmp_path, protocol=protocol, datasets=("kvasir",))
    assert run.datasets["kvasir"].published_split is None
    made = make.made_source(run.datasets["kvasir"])
    twin = first_of(made, "test")
    path = with_file(made, "train", content=twin.content, label=twin.facts["label"])
    make.write_source(run, made)
    for found in train_command(run, ["kvasir"]):
        lost = found.removed["no published split"]
        assert (found.kept, found.overlaps) == ((), {"image": lost})
        assert lost >= 1
        rows = read(run, found)
        assert rows
        assert all(path not in json.dumps(row) for row in rows)


@PROTOCOLS
def test_overlaps_with_another_source_are_removed(tmp_path: Path, protocol: str) -> None:
    """ISIC-2019 and DermaMNIST hold the same pictures; either has a split of its publisher's."""
    run = make.benchmark_run(tmp_path, protocol=protocol, datasets=("bloodmnist", "dermamnist"))
    ours, theirs = (make.made_source(run.datasets[name]) for name in ("bloodmnist", "dermamnist"))
    twin = first_of(theirs, "test")
    path = with_file(ours, "train", content=twin.content)
    # The same picture is in the test of its own source as well: the stronger reason counts.
    with_file(ours, "test", content=twin.content)
    for made in (ours, theirs):
        make.write_source(run, made)
    found = {entry.task: entry for entry in train_command(run)}["BloodMNIST_cls"]
    assert (found.kept, found.removed, found.rows) == ((), {"other source": 1}, TRAINS - 1)
    listed = json.loads((run.layout.train_data / str(found.listed)).read_text())
    (row,) = listed["rows"]
    assert (row["row"], row["kept"], row["tests"]) == (f"bloodmnist/{path}", False, ["bloodmnist", "dermamnist"])


@PROTOCOLS
def test_a_grey_picture_that_a_test_has_as_rgb_is_in_no_training_row(tmp_path: Path, protocol: str) -> None:
    run = make.benchmark_run(tmp_path, protocol=protocol, datasets=("bloodmnist", "dermamnist"))
    ours, theirs = (make.made_source(run.datasets[name]) for name in ("bloodmnist", "dermamnist"))
    with_file(theirs, "test", as_grey=first_of(ours, "train").content)
    for made in (ours, theirs):
        make.write_source(run, made)
    found = {entry.task: entry for entry in train_command(run)}["BloodMNIST_cls"]
    assert (found.kept, found.removed, found.rows) == ((), {"other source": 1}, TRAINS - 1)
    assert [(shared.first, shared.second, shared.pictures) for shared in shared_pictures(run)] == [
        ("bloodmnist", "dermamnist", 1)
    ]


@PROTOCOLS
def test_a_case_on_both_sides_of_the_publishers_lists(tmp_path: Path, protocol: str) -> None:
    """M3D's lists have series of one case in training and test: no picture is shared, the patient is."""
    run = make.benchmark_run(tmp_path, protocol=protocol, datasets=("m3d",))
    made = make.made_source(run.datasets["m3d"])
    patient = first_of(made, "test").facts["group"]
    moved = first_of(made, "train").facts["group"]
    made.files = [
        file.model_copy(update={"facts": file.facts | {"group": patient}}) if file.facts.get("group") == moved else file
        for file in made.files
    ]
    make.write_source(run, made)
    for found in train_command(run, ["m3d"]):
        shown = found.overlaps["patient"]
        if protocol == "corrected":
            assert (found.kept, found.removed) == ((), {"published split": shown})
        else:
            split = "lists train, validation and test of M3D_Cap.json"
            assert found.kept == (Kept(source="m3d", kind="patient", rows=shown, split=split),)
            assert found.removed == {}


@PROTOCOLS
def test_a_pair_of_texts_on_both_sides(tmp_path: Path, protocol: str) -> None:
    run = make.benchmark_run(tmp_path, protocol=protocol, datasets=("medmcqa", "pubmedqa"))
    ours, theirs = (make.made_source(run.datasets[name]) for name in ("medmcqa", "pubmedqa"))
    both = {"query": "Ask of both?", "target": "Said by both"}
    own = {"query": "Ask of ours?", "target": "Said by us"}
    # Width, case and a full stop make no other pair; another answer does.
    change_rows(ours, "records.jsonl", "records", own)
    change_rows(theirs, "records.jsonl", "records", both)
    shouted = {"query": "ASK of ours?", "target": "Said by us."}
    change_rows(ours, "train.jsonl", "training", shouted, both, own | {"target": "Said by nobody"})
    for made in (ours, theirs):
        make.write_source(run, made)
    found = {entry.task: entry for entry in train_command(run)}["MedMCQA"]
    assert found.overlaps == {"text": 2}
    if protocol == "corrected":
        assert (found.kept, found.removed) == ((), {"other source": 1, "published split": 1})
    else:
        split = "files train.json and dev.json; dev is the benchmark's test"
        assert found.kept == (Kept(source="medmcqa", kind="text", rows=1, split=split),)
        assert found.removed == {"other source": 1}


def test_a_build_that_drew_its_own_split_has_no_published_one(tmp_path: Path) -> None:
    run = make.benchmark_run(tmp_path, protocol="release", datasets=("bloodmnist",))
    made = make.made_source(run.datasets["bloodmnist"])
    with_file(made, "train", content=first_of(made, "test").content)
    inventory = make.made_inventory(made, "release").model_copy(update={"notes": (NOT_PUBLISHED,)})
    write_inventory(run.layout.inventory(made.dataset.images, made.dataset.id), inventory)
    found = {entry.task: entry for entry in train_command(run)}["BloodMNIST_cls"]
    assert (found.kept, found.removed) == ((), {"no published split": 1})


def test_a_wrong_candidate_of_a_test_is_in_no_training_row(tmp_path: Path) -> None:
    """The only picture of its class in the test asks nothing, but is shown as a wrong answer."""
    run = make.benchmark_run(tmp_path, datasets=("bloodmnist",))
    run = dataclasses.replace(run, tasks={"BloodMNIST_i2i": run.tasks["BloodMNIST_i2i"]})
    made = make.made_source(run.datasets["bloodmnist"])
    with_file(made, "test", label="alone", content="pix1:alone")
    path = with_file(made, "train", label="alone", content="pix1:alone")
    second = [place for place, file in enumerate(made.files) if file.facts.get("split") == "train"][1]
    other = made.files[second]
    made.files[second] = other.model_copy(update={"facts": other.facts | {"label": "alone"}})
    make.write_source(run, made)
    (found,) = train_command(run)
    assert found.overlaps == {"image": 2}
    assert all(path not in json.dumps(row) for row in read(run, found))


@pytest.mark.parametrize("key", ["SkinLesion", "APTOS_cls"])
def test_pictures_of_a_released_test_are_in_no_training_row(tmp_path: Path, key: str) -> None:
    """A released task file may show what the source's publisher calls training; our rules would not."""
    every = make.benchmark_run(tmp_path)
    run = make.benchmark_run(
        tmp_path, protocol="release", task_index="released", datasets=every.tasks[key].sources, tasks=(key,)
    )
    task, shown = run.tasks[key], ""
    for name in task.sources:
        made = make.made_source(run.datasets[name])
        make.write_source(run, made)
        shown = shown or f"{made.dataset.images}/{first_of(made, 'train').path}".removeprefix(f"{task.image_root}/")
    targets = {"tgt_img_path": (shown,)} if task.form == "2d" and task.pool == "global" else {}
    record = Record(
        qry_inst="Find it:", qry_text="x", qry_img_path=shown, tgt_text=("y",) if not targets else ("",), **targets
    )
    with record_writer(run.layout.task_index(task.index)) as writer:
        writer.add(record)
    (found,) = train_command(run)
    assert (found.kept, set(found.removed)) == ((), {"no published split"})
    assert all(f"{task.image_root}/{shown}" not in json.dumps(row) for row in read(run, found))


def test_the_command_says_what_is_kept_and_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make.benchmark_run(tmp_path, protocol="release", datasets=("bloodmnist", "dermamnist"))
    ours, theirs = (make.made_source(run.datasets[name]) for name in ("bloodmnist", "dermamnist"))
    trains = [place for place, file in enumerate(ours.files) if file.facts.get("split") == "train"]
    for place, owner in zip(trains, (ours, theirs), strict=False):
        ours.files[place] = ours.files[place].model_copy(update={"content": first_of(owner, "test").content})
    for made in (ours, theirs):
        make.write_source(run, made)
    train_rows(run, ["BloodMNIST_cls"])
    assert capsys.readouterr().out == (
        f"BloodMNIST_cls: {TRAINS - 1} rows (kept 1 with image of a test of bloodmnist, left out 1: other source; "
        "see BloodMNIST_train.overlaps.json)\n"
    )


def test_the_command_quotes_no_restricted_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make.benchmark_run(tmp_path, datasets=("mimic_cxr",))
    made = make.made_source(run.datasets["mimic_cxr"])
    # The second of two files is damaged, so that rows have been made by then.
    made.rows("training/00001.jsonl", [{"picture": "none"}], kind="training", split="train")
    make.write_source(run, made)
    folder = run.layout.benchmark / made.dataset.images
    (folder / "training/00001.jsonl").write_text('{"picture": "files/p10/p1000/secret.jpg"}')
    for trained in train_command(run, ["mimic_cxr"]):
        assert "is missing or differs from its inventory" in trained.status.reason
        assert not (run.layout.train_data / trained.file).exists()
    train_rows(run, ["mimic_cxr"])
    assert "failed: the terms of its source forbid to show why" in capsys.readouterr().out


def test_only_splits_of_the_publisher_are_called_published() -> None:
    """Drawn splits and lists of the benchmark's authors are not; each manifest that names one has both parts."""
    datasets = make.benchmark_run(Path("nowhere")).datasets
    trained = {
        source
        for task in make.benchmark_run(Path("nowhere")).tasks.values()
        for source in task.sources
        if task.split == "id"
    }
    named = {name for name, dataset in datasets.items() if dataset.published_split}
    assert named <= trained
    drawn = {name for name, dataset in datasets.items() if dataset.recipe.options.get("split") == "drawn"}
    assert drawn == {"aptos_2019", "kvasir", "medpix_vqa"}
    benchmarks_own = {"kvasir_seg", "pannuke", "cirrmri600", "chest_imagenome", "mimic_cxr_vqa", "vindr_mammo"}
    ours = {"han_seg", "synthrad2023", "mmdental"}
    no_training = {"medical_qa_retrieval", "public_health_qa"}
    assert trained - named == drawn | benchmarks_own | ours | no_training


def test_held_out_sources_are_never_trained_on(tmp_path: Path) -> None:
    run = make.benchmark_run(tmp_path)
    with pytest.raises(MedhebError, match="lc25000: has no task of the in-distribution part"):
        train_command(run, ["lc25000"])
    # Any of a task's sources names it, not only the first.
    assert [entry.task for entry in train_command(run, ["polypgen"])] == ["Gastrointestinal"]
    assert training_file(run.tasks["MIMIC-CXR-LT_i2i"]) == "mimic-cxr-lt-i2i-train.jsonl"
    entry = train_command(run, ["APTOS_cls"])[0]
    assert entry.status.reason == "a source has not been built"


@PROTOCOLS
def test_a_patient_of_a_test_is_in_no_training_of_any_source(tmp_path: Path, protocol: str) -> None:
    """RadGenome-ChestCT are CT-RATE's scans; the MIMIC sources show one hospital's patients."""
    run = make.benchmark_run(tmp_path, protocol=protocol, datasets=("ct_rate", "radgenome_chest_ct"))
    ours, theirs = (make.made_source(run.datasets[name]) for name in ("ct_rate", "radgenome_chest_ct"))
    patient = next(file.facts["group"] for file in ours.files if file.facts.get("split") == "valid")
    trained = {file.facts["group"] for file in theirs.files if file.facts.get("split") == "train"}
    moved = min(str(group) for group in trained)
    theirs.files = [
        file.model_copy(update={"facts": {**file.facts, "group": patient}})
        if file.facts.get("group") == moved
        else file
        for file in theirs.files
    ]
    for made in (ours, theirs):
        make.write_source(run, made)
    found = {entry.task: entry for entry in train_command(run)}["RGCC_i2t"]
    assert found.overlaps == {"patient": 1}
    assert (found.removed, found.kept) == ({"other source": 1}, ())
    assert found.rows == len(trained) - 1
    mimic = {name for name, dataset in make.benchmark_run(tmp_path).datasets.items() if dataset.people == "mimic_cxr"}
    assert mimic == {"mimic_cxr", "mimic_cxr_lt", "mimic_cxr_vqa", "chest_imagenome"}


def test_a_training_part_that_is_large_is_asked_for(tmp_path: Path) -> None:
    run = make.benchmark_run(tmp_path, datasets=("isic_2019",))
    made = make.made_source(run.datasets["isic_2019"])
    made.files = [file for file in made.files if file.facts["split"] == "test"]
    make.write_source(run, made)
    (status, *_) = (entry.status for entry in train_command(run, ["isic_2019"]))
    assert status.state == "blocked"
    assert status.reason.endswith("not fetched by default. 25,331 pictures, 9.1 GB (rounded)")
    assert status.remedy == "Set 'training: [isic_2019]' in the configuration and run the workflow"
    run = make.benchmark_run(tmp_path, datasets=("isic_2019",), training=("isic_2019",))
    (status, *_) = (entry.status for entry in train_command(run, ["isic_2019"]))
    assert (status.state, status.remedy[:24]) == ("failed", "Build them from a folder")
