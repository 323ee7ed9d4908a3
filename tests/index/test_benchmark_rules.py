"""All 107 tasks by the rules of the benchmark, over made-up inventories of all its sources."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import make_benchmark as make
import pytest

from medheb.core.digests import json_digest
from medheb.index.builders.registry import FAMILIES, build_rows, context_of
from medheb.index.draw import Draw
from medheb.index.entries import Source, Sources
from medheb.index.records import Item, Record, as_json, read_records
from medheb.index.run import build_index
from medheb.index.text_rules import comparable
from medheb.manifest.load import Run
from medheb.manifest.task import Task

EVERY = make.benchmark_run(Path("nowhere"))
TEST_ROWS = make.SMALL[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, make.Made]]:
    """The benchmark with all its sources built."""
    run = make.benchmark_run(tmp_path_factory.mktemp("benchmark"))
    sources = {name: make.made_source(dataset) for name, dataset in run.datasets.items()}
    for source in sources.values():
        make.write_source(run, source)
    return run, sources


def sources_of(run: Run, task: Task, made: dict[str, make.Made], backwards: bool = False) -> Sources:
    step = -1 if backwards else 1
    found = []
    for name in task.sources:
        inventory = make.made_inventory(replace(made[name], files=made[name].files[::step]))
        found.append(Source(inventory, run.layout, task.image_root, run.datasets[name].places))
    return Sources(found, run.rules, run.protocol)


def rows(run: Run, task: Task, sources: Sources) -> list[Record]:
    return list(build_rows(task, sources, Draw(make.SEED, task.task)))


def digests(folder: str, keys: list[str]) -> list[str]:
    """Digests of some tasks' rows, for other processes."""
    run = make.benchmark_run(Path(folder))
    needed = {source for key in keys for source in run.tasks[key].sources}
    made = {name: make.made_source(run.datasets[name]) for name in needed}
    tasks = [run.tasks[key] for key in keys]
    return [json_digest(as_json(rows(run, task, sources_of(run, task, made)))) for task in tasks]


def key_of(item: Item, contents: dict[str, str]) -> tuple[str, ...]:
    return (comparable(item.text), *(contents[path] for path in item.images))


def items(records: list[Record]) -> Iterator[Item]:
    for record in records:
        yield record.query
        yield from record.candidates


def test_every_recipe_has_a_maker_and_every_rule_a_task() -> None:
    assert {dataset.recipe.name for dataset in EVERY.datasets.values()} == set(make.MAKERS)
    assert {task.builder for task in EVERY.every_task.values()} == set(EVERY.rules)
    assert {rule.builder for rule in EVERY.rules.values()} == set(FAMILIES)


def test_every_source_gives_its_tasks(made: tuple[Run, dict[str, make.Made]]) -> None:
    run, _ = made
    for key, task in list(run.tasks.items())[::4]:
        status = build_index(run, key)
        assert status.ok, (key, status.reason)
        assert len(read_records(run.layout.task_index(task.index))) >= 10


@pytest.mark.parametrize("key", EVERY.tasks)
def test_a_task_keeps_the_rules_of_its_family(key: str, made: tuple[Run, dict[str, make.Made]]) -> None:
    run, built = made
    task = run.tasks[key]
    sources = sources_of(run, task, built)
    records = rows(run, task, sources)
    assert len(records) >= 8
    contents = sources.contents()
    texts = {comparable(item.text) for item in items(records)}
    for record in records:
        assert record.qry_inst == task.qry_inst
        assert record.qry_text == task.qry_text or task.qry_text in {"<label>", "<row>"}
        found = [key_of(item, contents) for item in record.candidates]
        assert len(set(found)) == len(found), "no candidate equals the positive or another one"
        assert len(found) == 1 if task.pool == "global" else len(found) > 1
        forms = {"3d": {"volume", "image"}, "2d": {"image"}, "text": set()}[task.form]
        assert {item.modality for item in (record.query, *record.candidates) if item.images} <= forms
    # The identifiers that make a pair are shown to no model.
    for source in sources.all:
        for file in source.inventory.files:
            assert not {comparable(str(file.facts.get(name))) for name in ("case", "study", "group")} & texts
    assert as_json(rows(run, task, sources_of(run, task, built, backwards=True))) == as_json(records)


@pytest.mark.parametrize("key", EVERY.tasks)
def test_no_group_is_in_both_training_and_test(key: str, made: tuple[Run, dict[str, make.Made]]) -> None:
    run, built = made
    task = run.tasks[key]
    family, context = context_of(task, sources_of(run, task, built), Draw(make.SEED, key))
    tested = {group for pair in family.pairs(context, "test") for group in pair.groups}
    trained = {group for pair in family.pairs(context, "train") for group in pair.groups}
    assert tested
    assert not tested & trained


def test_other_processes_and_hash_seeds_make_the_same_rows(made: tuple[Run, dict[str, make.Made]]) -> None:
    run, _ = made
    folder = str(run.layout.benchmark.parent)
    keys = ["APTOS_i2i", "MIMIC-CXR-VQA", "VindrCXR", "CT_RATE_t2i", "M3D_3dqa", "PublicHealthQA"]
    here = digests(folder, keys)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        halves = list(pool.map(digests, [folder] * 2, [keys[:3], keys[3:]]))
    assert [*halves[0], *halves[1]] == here
    program = f"import test_benchmark_rules as t; print(t.digests({folder!r}, {keys!r}))"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path, "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, cwd=make.ROOT, env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == str(here)
