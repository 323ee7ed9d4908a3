"""The 54 sources and 107 tasks of the real benchmark hold what the paper and the dataset card say."""

import re
from collections import Counter
from pathlib import Path

import pytest

from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run, load_config, load_datasets, load_run

ROOT = Path(__file__).resolve().parents[2]

# Names of the card's download table, in its order, then those of its list of sources that it does not pass on.
CARD_NAMES = """
MIMIC-CXR-LT|ISIC-2019|Brain-Tumor-MRI|PathMNIST|ChestMNIST(NIH-ChestXray14)|DermaMNIST(HAM10000)|OCTMNIST(OCT)
TissueMNIST(BBBC051)|BloodMNIST|OrganAMNIST(LiTS)|OrganCMNIST(LiTS)|OrganSMNIST(LiTS)|Kvasir|APTOS-2019|PanNuke
VinDr-CXR|VinDr-Mammo|Chest-imagenome|Kvasir-SEG|USforKidneyMSBench(CT2USforKidneySeg)|UltrasoundNerveMSBench
UWSkinCancerMSBench|Isic2018MSBench(ISIC 2018 Challenge)|PolypGenMSBench|MIMIC-CXR|USData|Path-VQA|PMC-VQA|ROCO-VQA
MedPIX-VQA|RadImageNet-VQA|VQA_RAD|MIMIC-CXR-VQA|MedMCQA|PubMedQA|MedicalQARetrieval|PublicHealthQA|MMDental|CT-RATE
MRNet|CirrMRI600|OrganMNIST(LiTS)|NoduleMNIST|SynapseMNIST(MitoEM dataset)|RadGenomme-Chest-CT|M3D|BraTS-PED
SynthRAD2023|HaN-Seg|Chexpert_plus|Retinal Disease Classification|LC25000|OmniMedVQA|BraTS-MEN
"""
NOT_PASSED_ON = """
Chest-ImaGenome|CheXpert-Plus|MIMIC-CXR|MIMIC-CXR-LT|MIMIC-CXR-VQA|VinDr-CXR|VinDr-Mammo|RadImageNet-VQA|CT-RATE|MRNet
"""
# The publishers' own digests, from the packages medmnist 3.0.2 and medsegbench 1.0.0.
PUBLISHED_MD5 = {
    "bloodmnist_224.npz": "b718ff6835fcbdb22ba9eacccd7b2601",
    "chestmnist_224.npz": "45bd33e6f06c3e8cdb481c74a89152aa",
    "dermamnist_224.npz": "8974907d8e169bef5f5b96bc506ae45d",
    "isic2018_512.npz": "000a76e688e6d48543b9563a8c406ae4",
    "nodulemnist3d.npz": "8755a7e9e05a4d9ce80a24c3e7a256f3",
    "nodulemnist3d_64.npz": "c47c5b7d457bf6332200d2ea6d64ecd8",
    "octmnist_224.npz": "abc493b6d529d5de7569faaef2773ba3",
    "organamnist_224.npz": "50747347e05c87dd3aaf92c49f9f3170",
    "organcmnist_224.npz": "050f5e875dc056f6768abf94ec9995d1",
    "organmnist3d.npz": "a0c5a1ff56af4f155c46d46fbb45a2fe",
    "organmnist3d_64.npz": "58a2205adf14a9d0a189cb06dc78bf10",
    "organsmnist_224.npz": "b354719e553fbbb2513d5533f52a4cb1",
    "pathmnist_224.npz": "2c51a510bcdc9cf8ddb2af93af1eadec",
    "polypgen_512.npz": "43a05773a4ce5cece31bb63dfa7b897d",
    "synapsemnist3d.npz": "1235b78a3cd6280881dd7850a78eadb6",
    "synapsemnist3d_64.npz": "43bd14ebf3af9d3dd072446fedc14d5e",
    "tissuemnist_224.npz": "b077128c4a949f0a4eb01517f9037b9c",
    "ultrasoundnerve_512.npz": "9f6e4127e75595e9a63f0469af01a605",
    "usforkidney_512.npz": "aad4fd208535c90d9a8bebe75714698c",
    "uwaterlooskincancer_512.npz": "1bf86aae7d81853f973b8b7ccb8a048e",
}
PUBLISHED_RECORDS = {"10519652", "13358372"}


@pytest.fixture(scope="module")
def sources() -> dict[str, Dataset]:
    return load_datasets(ROOT / "manifests" / "datasets")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Every reference between manifests is checked by loading them together."""
    monkeypatch.chdir(ROOT)
    return load_run(load_config([ROOT / "config" / "full.yaml"]))


def names(dataset: Dataset) -> set[str]:
    """Every name under which a source can be found, without regard to case."""
    return {name.casefold() for name in (dataset.id, dataset.title, *dataset.aliases)}


def card_names(table: str) -> list[str]:
    return [name for line in table.split("\n") for name in line.split("|") if name]


def test_54_sources_in_order(sources: dict[str, Dataset]) -> None:
    assert len(sources) == 54
    assert list(sources) == sorted(sources)


def test_107_tasks_with_the_paper_s_counts(run: Run) -> None:
    tasks = run.tasks.values()
    assert len(tasks) == 107
    assert Counter(task.family for task in tasks) == {
        "image-image": 20,
        "modality-bridging": 10,
        "image-label": 22,
        "image-report": 7,
        "text-image": 23,
        "vqa": 11,
        "region": 7,
        "text-text": 7,
    }
    assert Counter(task.form for task in tasks) == {"2d": 69, "3d": 31, "text": 7}
    assert Counter(task.split for task in tasks) == {"id": 96, "heldout": 11}
    assert Counter(task.pool for task in tasks) == {"local": 88, "global": 19}


def test_every_source_has_a_task_and_every_task_its_sources(run: Run, sources: dict[str, Dataset]) -> None:
    assert {source for task in run.tasks.values() for source in task.sources} == set(sources)


def test_held_out_sources_are_the_paper_s(run: Run) -> None:
    held_out = {source for task in run.tasks.values() if task.split == "heldout" for source in task.sources}
    assert held_out == {"chexpert_plus", "rfmid", "lc25000", "omnimedvqa", "brats_men"}
    inside = {source for task in run.tasks.values() if task.split == "id" for source in task.sources}
    assert not held_out & inside


def test_every_task_has_an_instruction_and_images_a_root(run: Run) -> None:
    folder = {"2d": "2D", "3d": "3D", "text": "Text"}
    for task in run.tasks.values():
        assert task.qry_inst == task.qry_inst.strip() != "", task.task
        assert task.index.startswith(f"{folder[task.form]}_Task/"), task.task
        if task.form == "text":
            assert task.image_root is None, task.task
        else:
            assert task.image_root is not None, task.task
            assert task.image_root.startswith(f"{folder[task.form]}_Images/"), task.task


def test_label_and_question_tasks_say_what_they_ask(run: Run) -> None:
    for task in run.tasks.values():
        if task.family == "image-label":
            assert task.qry_text.endswith("?"), task.task
        if task.family in {"vqa", "region"}:
            assert task.qry_text == "<row>", task.task


def test_no_name_means_two_sources(sources: dict[str, Dataset]) -> None:
    count = Counter(name for dataset in sources.values() for name in names(dataset))
    assert [name for name, times in count.items() if times > 1] == []
    for dataset in sources.values():
        assert len(set(dataset.aliases)) == len(dataset.aliases), dataset.id


def test_every_name_of_the_card_resolves(sources: dict[str, Dataset]) -> None:
    listed = card_names(CARD_NAMES)
    found = {name: [key for key, dataset in sources.items() if name.casefold() in names(dataset)] for name in listed}
    assert {name: keys for name, keys in found.items() if len(keys) != 1} == {}
    assert len({keys[0] for keys in found.values()}) == len(listed) == 54


def test_what_the_card_does_not_pass_on_is_not_passed_on_here(sources: dict[str, Dataset]) -> None:
    for name in card_names(NOT_PASSED_ON):
        [dataset] = [dataset for dataset in sources.values() if name.casefold() in names(dataset)]
        assert (dataset.redistribution, dataset.show_content) == (False, False), name


def test_restricted_sources_forbid_redistribution_and_content(sources: dict[str, Dataset]) -> None:
    closed = [dataset for dataset in sources.values() if dataset.access in {"credentialed", "restricted"}]
    assert {"mimic_cxr", "vindr_mammo", "chexpert_plus"} <= {dataset.id for dataset in closed}
    assert not [dataset.id for dataset in closed if dataset.redistribution or dataset.show_content]


def test_physionet_sources_name_versions_and_patterns_but_no_file(sources: dict[str, Dataset]) -> None:
    """File names of these projects hold subject or image ids."""
    projects = [dataset for dataset in sources.values() if dataset.host.kind == "physionet"]
    assert len(projects) == 5
    for dataset in projects:
        assert dataset.host.kind == "physionet"
        assert dataset.host.versions, dataset.id
        assert dataset.host.needed != ("*",), dataset.id
        assert dataset.files == (), dataset.id


def test_passing_on_needs_a_licence(sources: dict[str, Dataset]) -> None:
    for dataset in sources.values():
        if dataset.redistribution:
            assert dataset.licence.spdx, dataset.id
        if dataset.licence.spdx is None:
            assert dataset.licence.note, dataset.id


def test_every_file_has_a_digest_or_a_reason(sources: dict[str, Dataset]) -> None:
    for dataset in sources.values():
        if not dataset.files:
            assert len(dataset.files_note) >= 30, dataset.id
        for file in dataset.files:
            if file.sha256 is None and file.md5 is None:
                assert re.search(r"\b(no|not|nobody|only)\b", file.digest_source), f"{dataset.id}: {file.path}"
            assert file.bytes is None or file.bytes > 0, f"{dataset.id}: {file.path}"
        assert dataset.download_bytes is None or dataset.download_bytes > 0, dataset.id


def test_known_sizes_fit_together(sources: dict[str, Dataset]) -> None:
    for dataset in sources.values():
        known = sum(file.bytes or 0 for file in dataset.files)
        assert dataset.download_bytes is None or known <= dataset.download_bytes, dataset.id


def test_published_md5s(sources: dict[str, Dataset]) -> None:
    seen = set()
    for dataset in sources.values():
        if dataset.host.kind == "zenodo" and dataset.host.record in PUBLISHED_RECORDS:
            for file in dataset.files:
                assert file.md5 == PUBLISHED_MD5[file.path], file.path
                seen.add(dataset.id)
    assert len(seen) == 9 + 3 + 5  # MedMNIST 2D, MedMNIST 3D, MedSegBench


def test_every_source_has_an_official_page(sources: dict[str, Dataset]) -> None:
    for dataset in sources.values():
        assert all(re.fullmatch(r"https://[^\s]+", link) for link in dataset.links), dataset.id
        assert dataset.licence.url.startswith("https://"), dataset.id


def test_borrowed_files_belong_to_a_source_that_borrows_nothing(sources: dict[str, Dataset]) -> None:
    for dataset in sources.values():
        for required in dataset.requires:
            assert sources[required].requires == (), dataset.id
    borrowers = {dataset.id for dataset in sources.values() if "mimic_cxr" in dataset.requires}
    assert borrowers == {dataset.id for dataset in sources.values() if dataset.patients == "mimic_cxr"}
    assert sources["radgenome_chest_ct"].people == sources["ct_rate"].people
    assert borrowers == {"chest_imagenome", "mimic_cxr_lt", "mimic_cxr_vqa"}


def test_no_source_builds_into_the_folder_of_another(sources: dict[str, Dataset]) -> None:
    folders = {dataset.id: Path(dataset.images) for dataset in sources.values()}
    for key, folder in folders.items():
        for other, place in folders.items():
            assert key == other or (folder != place and folder not in place.parents), (key, other)


def test_images_lie_where_the_home_task_looks(run: Run) -> None:
    """A source fills the folder that one of its own tasks starts at, or one above or below it."""
    for key, dataset in run.datasets.items():
        tasks = [task for task in run.tasks.values() if task.sources[0] == key and task.image_root is not None]
        if not tasks:
            continue
        images = Path(dataset.images)
        roots = [Path(task.image_root) for task in tasks if task.image_root]
        assert any(root == images or root in images.parents or images in root.parents for root in roots), key
