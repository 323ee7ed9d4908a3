"""Made-up sources of volumes, each after one recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from made_source import WORDS, Made, sentence


def medmnist3d(made: Made) -> None:
    labels = made.options["labels"]
    for split, number in made.numbers():
        case = f"{split}_slides/sample_{number:05d}"
        made.volume(case, case=case, group=case, label=labels[number % len(labels)], split=split)


def mrnet(made: Made) -> None:
    texts = made.options["labels"]
    labels = [text for text in texts.values() if text]
    for split, number in made.numbers():
        case = f"{number + 1130 * (split == 'test'):04d}"
        folder = made.options["folders"]["valid" if split == "test" else "train"]
        facts = {"case": case, "group": case, "split": split, "label": labels[number % len(labels)]}
        for view in ("axial", "coronal", "sagittal"):
            for slot in range(made.slices):
                path = f"{folder}/{view}/{case}/slice_{slot:02d}_orig_{slot * 3:03d}.png"
                made.file(path, kind="slice", view=view, slice=slot * 3, **facts)


def cirrmri600(made: Made) -> None:
    labels = [*made.options["labels"]["texts"].values(), made.options["labels"]["healthy"]]
    for split, number in made.numbers():
        name = f"{number + 500 * (split == 'train')}"
        for sequence, own in made.options["sequences"].items():
            facts = {"case": f"{name} {sequence}", "study": name, "group": name, "split": split, "modality": sequence}
            made.volume(f"{own['slices']}/{split}/{name}", label=labels[number % len(labels)], **facts)


def brats_ped(made: Made) -> None:
    for split, number in made.numbers():
        part = next(part for part in made.options["parts"] if part["split"] == split)
        case = f"BraTS-PED-{split}{number:05d}-000"
        for modality in made.options["modalities"]:
            facts = {"study": case, "group": case[:-4], "split": split, "modality": modality}
            made.volume(f"{part['slices']}/{modality}/{case}", case=f"{case} {modality}", **facts)


def brats_men(made: Made) -> None:
    reports = []
    for number in range(made.tests):
        case = f"BraTS-MEN-{number:05d}-000"
        made.volume(f"{made.options['slices']}/{case}", case=case, group=case[:-4], split="test", modality="T1n")
        reports.append({"id": case, "case": case, "group": case[:-4], "split": "test", "text": sentence(number)})
    made.rows("reports.jsonl", reports, kind="reports")


def _two_modalities(made: Made, folders: Mapping[str, str], region: str | None) -> None:
    for number in range(made.tests + made.trains):
        case = f"{region or 'case'}_{number:03d}"
        for modality, folder in folders.items():
            facts = {"case": f"{case} {modality}", "study": case, "group": case, "split": made.drawn(case)}
            made.volume(f"{folder}/{case}", modality=modality, region=region, **facts)


def han_seg(made: Made) -> None:
    _two_modalities(made, {name: own["slices"] for name, own in made.options["stacks"].items()}, None)


def synthrad2023(made: Made) -> None:
    for region in made.options["regions"]:
        _two_modalities(made, {"CT": made.options["ct"], "MR": made.options["mr"]}, region)


def ct_rate(made: Made) -> None:
    reports, questions = [], []
    for split, number in made.numbers():
        split = "valid" if split == "test" else "train"
        part, case = made.options["parts"][split], f"{split}_{number}_a"
        label = ("Lung nodule", "Emphysema", "Atelectasis", "Lung nodule | Emphysema")[number % 4]
        facts = {"case": case, "group": f"{split}_{number}", "split": split}
        made.volume(f"{part['slices']}/{case}", label=label, modality="CT", **facts)
        made.file(f"{part['xrays']}/{case}/drr_ap.png", kind="xray", label=label, **facts)
        reports.append({**facts, "id": case, "findings": sentence(number), "impression": f"See {number} of {split}."})
        questions.append(
            {**facts, "id": f"{case} 0", "query": f"Question {number % 7}?", "target": sentence(number % 50)}
        )
    made.rows("reports.jsonl", reports, kind="reports")
    made.rows("questions.jsonl", questions, kind="questions")


def radgenome_chest_ct(made: Made) -> None:
    reports, questions = [], []
    for split, number in made.numbers():
        split = "valid" if split == "test" else "train"
        case = f"{split}_{number}/{split}_{number}a"
        facts = {"case": case, "group": f"{split}_{number}", "split": split}
        folder = f"{made.options['parts'][split]['slices']}/{case}"
        made.volume(folder, study=f"{split}_{number}_a", modality="CT", **facts)
        reports.append({**facts, "id": case, "text": sentence(number, len(split))})
        for answer in ("Yes.", "No.") if number % 2 else ("No.",):
            query = f"Is there {WORDS[number % 9]} {answer} in {number % 4}?"
            questions.append({**facts, "id": f"{case} {answer}", "query": query, "target": answer})
        questions.append({**facts, "id": f"{case} where", "query": "Where is it?", "target": f"lobe {number % 12}"})
    made.rows("reports.jsonl", reports, kind="reports")
    made.rows("questions/presence.jsonl", questions, kind="questions")


def m3d(made: Made) -> None:
    reports: list[dict[str, Any]] = []
    questions: dict[str, list[dict[str, Any]]] = {"test": [], "train": []}
    for split, number in made.numbers():
        case = f"{number + 50_000 * (split == 'train'):06d}"
        names = [f"{made.options['part']}/{case}/Axial_{series}" for series in range(1 + number % 2)]
        for name in names:
            for slot in range(made.slices):
                path = f"{name}/{slot * 9}.png"
                own = f"{case}/{name.rpartition('/')[2]}"
                made.file(path, kind="slice", case=own, group=case, split=split, slot=slot, slice=slot * 9)
            # A frame beside those of the paper's rule.
            made.file(f"{name}/1.png", kind="slice", case=own, group=case, split=split, slice=1)
        reports.append({"id": case, "case": case, "group": case, "series": names, "text": sentence(number, len(split))})
        choices = [f"{word} {number}" for word in WORDS[:4]]
        common = {"case": case, "group": case, "series": names[0], "choices": choices, "kind": "organ"}
        questions[split].append({**common, "id": case, "query": f"Which {number % 3}?", "target": choices[number % 4]})
    made.rows("reports.jsonl", reports, kind="reports")
    for name, rows in questions.items():
        made.rows(f"questions/{name}.jsonl", rows, kind="questions")


def mmdental(made: Made) -> None:
    visits = []
    for number in range(made.tests + made.trains):
        case = str(number)
        for view in ("axial", "coronal", "sagittal"):
            for slot in range(made.slices):
                path = f"cbct_png/{case}/{view}_slice_{slot:03d}.png"
                made.file(path, kind="slice", view=view, slot=slot, slice=slot, case=case, group=case)
        for visit in range(1, 3):
            texts = {"query": sentence(number, visit), "target": f"Plan {number}.{visit}"}
            visits.append({"id": f"{case}/{visit}", "group": case, "case": case, "visit": visit, **texts})
    made.rows("visits.jsonl", visits, kind="visits")
    made.rows("records.jsonl", visits, kind="records")
