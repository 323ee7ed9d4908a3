"""The released index of all 107 tasks: read, resolved, measured, and every named picture looked for on disk.

Made up by :func:`prepare`: for each task a released file with 701 queries of 8 candidates (75,007 and 600,056 in all),
of both record generations in turn, over inventories whose pictures lie on disk as empty files. Run as a script it works
on a prepared folder with one process, so that time and peak memory are those of the step.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
QUERIES, CANDIDATES, PICTURES, SLICES = 701, 8, 960, 16
SECONDS_ALLOWED, MEGABYTES_ALLOWED = 300, 2000


def run_of(folder: Path) -> Any:
    """The full benchmark on a folder, with the released index."""
    from medheb.manifest.load import load_config, load_run

    os.chdir(ROOT)
    paths = {name: str(folder / name) for name in ("sources", "benchmark", "results")}
    return load_run(load_config([ROOT / "config" / "full.yaml"], {"paths": paths, "task_index": "released"}))


def place_of(dataset: Any, root: str) -> tuple[str, str]:
    """A folder at or below an image root, as tasks name it, and its place below the source's image folder."""
    if f"{root}/".startswith(f"{dataset.images}/"):
        return "", root.removeprefix(dataset.images).strip("/")
    for place in dataset.places:
        if f"{place.path}/".startswith(f"{root}/"):
            return place.path.removeprefix(root).strip("/"), place.folder
        if f"{root}/".startswith(f"{place.path}/"):
            return "", f"{place.folder}/{root.removeprefix(place.path)}".strip("/")
    raise SystemExit(f"{dataset.id} has nothing at {root}")


def joined(*parts: str) -> str:
    """A path of the parts that are not empty."""
    return "/".join(part for part in parts if part)


def names(volumes: bool) -> list[list[str]]:
    """Names of the pictures of each item: one, or the slices of a volume."""
    if not volumes:
        return [[f"p{number:04d}.png"] for number in range(PICTURES)]
    return [[f"case_{c:03d}/{s:03d}.png" for s in range(SLICES)] for c in range(PICTURES // SLICES)]


def prepare(folder: Path) -> int:
    """Write inventories, empty pictures and released files. Returns the number of pictures."""
    from medheb.build.inventory import BuiltFile, Inventory, write_inventory
    from medheb.build.places import link_places
    from medheb.core.digests import sha256_bytes
    from medheb.core.status import OK, write_status
    from medheb.manifest.released import RELEASED_ID

    run = run_of(folder)
    files: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in run.datasets}
    for number, task in enumerate(run.tasks.values()):
        named: list[list[str]] = []
        for source in task.sources if task.image_root else ():
            above, below = place_of(run.datasets[source], task.image_root)
            for item in names(task.form == "3d"):
                named.append([joined(above, source, name) for name in item])
                facts = {"label": f"class {len(named) % 9}", "split": "test", "group": f"g{len(named) // 2}"}
                facts |= {"case": item[0].split("/")[0]} if task.form == "3d" else {}
                files[source] |= {joined(below, source, name): facts for name in item}
        path = run.layout.source_files(RELEASED_ID) / task.index
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(list(rows(task, named, old=bool(number % 2)))), encoding="utf-8")
    write_status(run.layout.source_status(RELEASED_ID), OK)
    for source, listed in files.items():
        dataset = run.datasets[source]
        built: list[BuiltFile] = []
        for name, facts in sorted(listed.items()):
            place = run.layout.benchmark / dataset.images / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            digest = sha256_bytes(f"{source}/{name}".encode())
            built.append(BuiltFile(path=name, bytes=0, sha256=digest, content=f"pix1:{digest}", facts=facts))
        link_places(run.layout.benchmark, dataset, listed)
        header = run.layout.inventory(dataset.images, source)
        header.parent.mkdir(parents=True, exist_ok=True)
        recipe = {"recipe": dataset.recipe.name, "recipe_version": dataset.recipe.version}
        write_inventory(
            header, Inventory(dataset=source, images=dataset.images, status=OK, files=tuple(built), **recipe)
        )
    return sum(len(listed) for listed in files.values())


def rows(task: Any, named: list[list[str]], old: bool) -> Iterator[dict[str, Any]]:
    """Released rows of a task."""
    token = "<|image_1|>" if old else ""
    for row in range(QUERIES):
        places = [(row * CANDIDATES + step) % len(named) for step in range(CANDIDATES)] if named else []
        pictures = [named[place] if task.form == "3d" else named[place][0] for place in places]
        fields: dict[str, Any] = {"qry_inst": f"{token} {task.qry_inst}".strip(), "qry_text": f"question {row}"}
        fields |= {"tgt_inst": "Match the target"} if old else {}
        if named and task.family != "text-image":
            fields["qry_img_path"] = pictures[-1]
        if task.family in {"image-image", "modality-bridging", "text-image", "region"}:
            yield {**fields, "tgt_text": [token] * CANDIDATES, "tgt_img_path": pictures}
        else:
            yield {**fields, "tgt_text": [f"answer {(row + step) % 5000}: < {step} %" for step in range(CANDIDATES)]}


def work(folder: Path) -> None:
    """Make all task files from the released ones, then check them."""
    from medheb.index.commands import check_command
    from medheb.index.quality import read_quality
    from medheb.index.run import build_index

    run = run_of(folder)
    started = time.monotonic()
    found = [build_index(run, key) for key in run.tasks]
    bad = [f"{key}: {status.reason}" for key, status in zip(run.tasks, found, strict=True) if not status.ok]
    if bad:
        sys.exit("\n".join(bad))
    made = time.monotonic() - started
    qualities = [read_quality(run.layout.task_quality(task.index)) for task in run.tasks.values()]
    started = time.monotonic()
    if check_command(run, [], as_json=False):
        sys.exit("the check found something missing")
    print(f"{sum(quality.rows for quality in qualities)} {made} {time.monotonic() - started}", file=sys.stderr)


def bench_released(folder: Path, measured: Any) -> dict[str, float]:
    """Seconds and megabytes of the whole, one process."""
    pictures = prepare(folder)
    seconds, megabytes = measured([sys.executable, str(Path(__file__).resolve()), str(folder)])
    if seconds > SECONDS_ALLOWED or megabytes > MEGABYTES_ALLOWED:
        sys.exit(f"released index: {seconds:.0f} s and {megabytes:.0f} MB")
    queries = 107 * QUERIES
    return {
        "queries": queries,
        "candidates": queries * CANDIDATES,
        "pictures": pictures,
        "seconds": seconds,
        "seconds_allowed": SECONDS_ALLOWED,
        "megabytes": megabytes,
        "megabytes_allowed": MEGABYTES_ALLOWED,
    }


if __name__ == "__main__":
    work(Path(sys.argv[1]))
