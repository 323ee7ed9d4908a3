"""Made-up inventories of all sources of the benchmark, with the facts and records that their recipes write.

Nothing is decoded or drawn: files are names, digests and facts. Each maker below follows one recipe.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from made_source import SEED, SLICES, SMALL, WORDS, Made, sentence
from made_volumes import (
    brats_men,
    brats_ped,
    cirrmri600,
    ct_rate,
    han_seg,
    m3d,
    medmnist3d,
    mmdental,
    mrnet,
    radgenome_chest_ct,
    synthrad2023,
)

from medheb.build.inventory import Inventory, write_inventory
from medheb.build.registry import RECIPES
from medheb.core.status import OK
from medheb.manifest.config import Config, Paths
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run, load_run

__all__ = ["SEED", "SLICES", "SMALL", "Made"]
ROOT = Path(__file__).resolve().parents[2]


def class_folders(made: Made) -> None:
    labels = list(made.options["labels"].items())
    for split, number in made.numbers():
        folder, label = labels[number % len(labels)]
        group = None
        if made.options["split"] == "drawn":
            group = f"{split}{number}"
            split = made.drawn(group)
        elif split not in made.options["folders"]:
            continue
        place = made.options["folders"][split]
        made.file(f"{place}/{folder}/{number}_{group}.png", kind="picture", label=label, split=split, group=group)


def labelled_pictures(made: Made) -> None:
    labels = [*made.options["labels"].values()][: max(4, made.tests // 3)]
    for split, number in made.numbers():
        group = None
        if made.options["split"] == "drawn":
            group = f"{split}{number}"
            split = made.drawn(group)
        elif split == "train" and "training" not in made.options:
            continue
        options = made.options if split == "test" or group else made.options["training"]
        path = f"{options['folder']}/{split}{number:06d}_{group}.png"
        made.file(path, kind="picture", label=labels[number % len(labels)], split=split, group=group)


def medmnist2d(made: Made) -> None:
    labels = made.options["labels"]
    for split, number in made.numbers():
        label, name = labels[number % len(labels)], f"{split}_{number:06d}"
        path = f"output_images/{split}/{label}/{name}.png"
        made.file(path, kind="picture", case=name, group=name, label=label, split=split)


def hub_vqa(made: Made) -> None:
    for split, number in made.numbers():
        group = f"{split}{number // 2}"
        if made.options["split"] == "drawn":
            split = made.drawn(group)
        if split not in made.options["folders"]:
            continue
        answers = {"question": f"What is {number % 11}?", "answer": WORDS[number % len(WORDS)] if number % 3 else "Yes"}
        folder = made.options["folders"][split]
        made.file(f"{folder}/{group}_{number}.png", kind="picture", split=split, group=group, **answers)


def roco_qa(made: Made) -> None:
    for split, number in made.numbers():
        name = f"{split.title()}_sample_{number:06d}"
        answers = {"question": sentence(number), "answer": sentence(number % 40, 3)}
        made.file(f"images/{name}.jpg", kind="picture", case=name, group=name, number=number, split=split, **answers)


def choice_vqa(made: Made) -> None:
    for part, count in (("test", made.tests), ("train", made.trains if "training" in made.options else 0)):
        rows = []
        for number in range(count):
            path = f"{made.options['folder']}/part/{part}{number // 2}.png"
            if number % 2 == 0:
                made.file(path, kind="picture", split=part, group=path)
            choices = [f"{word} {number % 5}" for word in WORDS[:4]]
            row = {"id": f"q{number}", "question": f"Which of {number % 2}?", "answer": choices[number % 4]}
            rows.append({**row, "choices": choices, "picture": path, "group": path, "split": part})
        if rows:
            made.rows(f"records/{part}_0000.jsonl", rows, kind="records", split=part)


def _patient(number: int) -> str:
    return f"1{number:07d}"


def mimic_cxr(made: Made) -> None:
    rows: dict[str, list[dict[str, Any]]] = {"test": [], "train": []}
    for split, number in made.numbers():
        patient, study = _patient(number // 2 + 20_000 * (split == "train")), f"5{number:07d}"
        path = f"files/p10/p{patient}/s{study}/{number:08x}.jpg"
        if split == "test":
            made.file(path, kind="xray", case=study, split="test", group=patient, view="PA")
        texts = {"findings": f"{split} {sentence(number)}", "impression": f"{split} {sentence(number, 1)}"}
        rows[split].append({"id": f"{split}{study}", "picture": path, "group": patient, **texts})
    made.rows("reports/00000.jsonl", rows["test"], kind="records", split="test")
    made.rows("training/00000.jsonl", rows["train"], kind="training", split="train")


def mimic_cxr_vqa(made: Made) -> None:
    rows: dict[str, list[dict[str, Any]]] = {"test": [], "train": []}
    for split, number in made.numbers():
        patient, study = _patient(1000 + number + 40_000 * (split == "train")), f"6{number:07d}"
        path = f"files/p10/p{patient}/s{study}/{number:08x}.jpg"
        if split == "test":
            made.file(path, kind="xray", case=study, split="test", group=patient)
        texts = {"question": f"Is there {WORDS[number % 9]}?", "answer": ("yes", "no", "Yes.", "left")[number % 4]}
        rows[split].append({"picture": path, "group": patient, "row": f"line {number}", "type": "presence", **texts})
    made.rows("questions/00000.jsonl", rows["test"], kind="records", split="test")
    made.rows("training/00000.jsonl", rows["train"], kind="training", split="train")


def mimic_cxr_lt(made: Made) -> None:
    labels = made.options["labels"]
    for number in range(made.tests):
        patient = _patient(2000 + number)
        path = f"p10/p{patient}/s7{number:07d}/{number:08x}.jpg"
        label = labels[number % len(labels)]
        made.file(path, kind="xray", case=str(number), label=label, split="test", group=patient)
    rows = [
        {"picture": f"p11/p{number}/s{number}/{number:08x}.jpg", "label": labels[number % 5], "group": f"p{number}"}
        for number in range(made.trains)
    ]
    made.rows("selection/train.jsonl", rows, kind="selection", split="train")


def chexpert_plus(made: Made) -> None:
    rows = []
    for number in range(made.tests):
        patient = f"patient{number // 2}"
        path = f"{made.options['pictures']}/valid/{patient}/study{number}/view1_frontal.png"
        label = ("Cardiomegaly", "Edema", "Pneumonia", None)[number % 4]
        facts = {"case": f"study{number}", "label": label, "split": "test", "group": patient}
        made.file(path, kind="xray", **facts)
        texts = {"findings": sentence(number), "impression": sentence(number, 2)}
        rows.append({"id": path, "picture": path, "group": patient, "part": "valid", **texts})
    made.rows("reports/test.jsonl", rows, kind="records", split="test")


def _listed_regions(made: Made, folder: str, crops: str) -> None:
    rows = []
    for split, number in made.numbers():
        picture, patient = f"{folder}/{split}_{number}.png", _patient(3000 + number + 5000 * (split == "train"))
        facts = {"split": split, "group": patient, "picture": picture, "case": f"{split}_{number}"}
        made.file(picture, kind="xray", label="", **facts)
        for label in WORDS[:2]:
            paths = [f"{crops}/{split}_{number}_{label}_{place}.png" for place in range(1 + number % 2)]
            for place, path in enumerate(paths):
                made.file(path, kind="crop", label=label, number=place, **facts)
            if split == "test":
                rows.append({"picture": picture, "label": label, "crops": paths, "group": patient})
    made.rows("selection/test.jsonl", rows[: made.tests], kind="selection", split="test")


def chest_imagenome_crops(made: Made) -> None:
    _listed_regions(made, "p10", "gold_crop")


def vindr(made: Made) -> None:
    _listed_regions(made, "pictures", "crop")


def crops(made: Made) -> None:
    name = made.options.get("name", "")
    for split, number in made.numbers():
        stem = f"{split}_{number:05d}_{name or made.dataset.id}"
        facts = {"case": stem, "group": stem, "label": made.options["label"], "split": split}
        made.file(f"images/{stem}.png", kind="picture", **facts)
        made.file(f"images/{stem}_crop.png", kind="crop", **facts)


def pannuke(made: Made) -> None:
    for split, number in made.numbers():
        tissue = made.options["tissues"][number % len(made.options["tissues"])]
        name = f"fold1_{number + 10_000 * (split == 'train'):08d}"
        path = f"{split}_images/{tissue}/{name}.png"
        made.file(path, kind="picture", case=name, group=name, label=tissue, split=split)
        tile = f"data_fold1_{split}_{number:06d}"
        facts = {"case": tile, "group": tile, "split": split}
        made.file(f"PanNuke_VG/images/data_fold1/{tile}.png", pixels=path, kind="region_picture", **facts)
        for cell in range(3):
            label = made.options["cell_types"][cell % 2]
            made.file(f"PanNuke_VG/crops/data_fold1/{tile}_{cell:03d}.png", kind="crop", label=label, **facts)


def usdata(made: Made) -> None:
    for split, number in made.numbers():
        case = f"Liver/{split}{number}"
        for index in range(2):
            facts = {
                "case": case,
                "group": case,
                "split": split,
                "label": "Liver",
                "report": f"肝脏 {split} {number}。",
            }
            made.file(f"Liver/{split}{number}_{index}.jpg", kind="picture", slice=index, **facts)


def text_rows(made: Made) -> None:
    rows = [
        {"id": f"{split}{number}", "group": f"{split}{number}", "query": f"Ask {split} {number}?"}
        | {"target": sentence(number, len(split)), "language": ("english", "chinese")[number % 2]}
        for split, number in made.numbers()
    ]
    made.rows("records.jsonl", [row for row in rows if str(row["id"]).startswith("test")], kind="records")
    if made.dataset.recipe.name in {"medmcqa", "pubmedqa"}:
        made.rows("train.jsonl", [row for row in rows if str(row["id"]).startswith("train")], kind="training")


MAKERS: dict[str, Callable[[Made], None]] = {
    "brats_men": brats_men,
    "brats_ped": brats_ped,
    "chest_imagenome_crops": chest_imagenome_crops,
    "chexpert_plus": chexpert_plus,
    "cirrmri600": cirrmri600,
    "class_folders": class_folders,
    "ct_rate": ct_rate,
    "han_seg": han_seg,
    "hub_vqa": hub_vqa,
    "kvasir_seg_crops": crops,
    "labelled_pictures": labelled_pictures,
    "m3d": m3d,
    "medical_qa": text_rows,
    "medmcqa": text_rows,
    "medmnist2d": medmnist2d,
    "medmnist3d": medmnist3d,
    "medsegbench_crops": crops,
    "mimic_cxr": mimic_cxr,
    "mimic_cxr_lt": mimic_cxr_lt,
    "mimic_cxr_vqa": mimic_cxr_vqa,
    "mmdental": mmdental,
    "mrnet": mrnet,
    "omnimedvqa": choice_vqa,
    "pannuke": pannuke,
    "pmc_vqa": choice_vqa,
    "public_health_qa": text_rows,
    "pubmedqa": text_rows,
    "radgenome_chest_ct": radgenome_chest_ct,
    "roco_qa": roco_qa,
    "synthrad2023": synthrad2023,
    "usdata": usdata,
    "vindr_cxr": vindr,
    "vindr_mammo": vindr,
}


def made_source(dataset: Dataset, size: tuple[int, int] = SMALL, slices: int = SLICES) -> Made:
    """What a source offers, in path order."""
    made = Made(dataset, *size, slices)
    MAKERS[dataset.recipe.name](made)
    made.files.sort(key=lambda file: file.path)
    return made


def made_inventory(made: Made, protocol: str = "corrected") -> Inventory:
    """Its inventory."""
    recipe = made.dataset.recipe
    return Inventory.model_construct(
        dataset=made.dataset.id,
        images=made.dataset.images,
        recipe=recipe.name,
        recipe_version=recipe.version,
        protocol=protocol if RECIPES[recipe.name].follows_protocol else None,
        status=OK,
        files=tuple(made.files),
    )


def write_source(run: Run, made: Made) -> None:
    """Put a source where the index step reads it."""
    folder = run.layout.benchmark / made.dataset.images
    for path, content in made.records.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    path = run.layout.inventory(made.dataset.images, made.dataset.id)
    write_inventory(path, made_inventory(made, run.config.protocol))


def benchmark_run(folder: Path, **settings: Any) -> Run:
    """The whole benchmark, in a folder of its own."""
    paths = Paths(sources=str(folder / "sources"), benchmark=str(folder / "MedHEB"), results=str(folder / "results"))
    config = Config(manifests="manifests", paths=paths, models=(), seed=SEED, **settings)
    return load_run(config)
