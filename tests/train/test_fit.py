"""The training job on a tiny checkpoint: resumption, ranks, bad input, and the model that comes out."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
import yaml
from made_training import NAMES, image_row, made_run, make_qwen3vl, picture, text_row, tiny_model, write_rows
from safetensors.torch import load_file, save_file

import medheb
import medheb.train.run as training
from medheb.core.errors import MedhebError
from medheb.fetch.weights import fetch_weights
from medheb.index.built import data_root
from medheb.index.records import Item
from medheb.manifest.load import Run
from medheb.manifest.model import ModelList
from medheb.models.base import ImageRef
from medheb.models.load import load_adapter, load_encoder
from medheb.train.checkpoint import Checkpoints, Position, restore
from medheb.train.merge import merge
from medheb.train.plan import make_plan
from medheb.train.run import fit
from medheb.train.settings import learning_rate

RANKS = """
import sys
from itertools import chain
from pathlib import Path
sys.path[:0] = [{tests!r}]
import torch
from made_training import reopened
from medheb.train.run import fit
torch.set_num_threads(1)
fit(reopened(Path({folder!r})), "tiny")
"""

# Ends a rank as a kill would, before its third step.
STOP = """
import medheb.train.run as training
step, left = training._step, [0, 0]
training._step = lambda *arguments: (left.pop(), step(*arguments))[1]
"""

PLAIN = """
import torch
torch.optim.AdamW = lambda parameters, lr, **_: torch.optim.SGD(parameters, lr)
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_qwen3vl(tmp_path_factory.mktemp("weights") / "tiny")


def planned(folder: Path, weights: Path, **options: object) -> Run:
    run = made_run(folder, weights, pictures=12, texts=12, **options)
    make_plan(run, "tiny", run.layout.medemb("tiny"))
    return run


def adapter_of(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.layout.medemb("tiny") / "adapter" / "adapter_model.safetensors")


def largest_difference(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


class StoppedError(Exception):
    pass


def stop_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """End as a kill would, before step ``count``."""
    step, done = training._step, iter(range(count))

    def counted(*arguments: object) -> object:
        if next(done, None) is None:
            raise StoppedError
        return step(*arguments)

    monkeypatch.setattr(training, "_step", counted)


def test_bfloat16_weights_with_an_adapter_in_float32(tmp_path: Path, weights: Path) -> None:
    """As on a GPU, where `dtype: auto` means bfloat16."""
    run = planned(tmp_path, weights)
    model = tiny_model(weights, dtype="bfloat16")
    run = Run(**{**vars(run), "models": {"tiny": model}})
    assert load_encoder(model, run.layout).network.dtype == torch.bfloat16
    assert fit(run, "tiny").pairs == 24
    adapter = adapter_of(run)
    assert {tensor.dtype for tensor in adapter.values()} == {torch.float32}
    assert all(float(tensor.abs().max()) > 1e-3 for name, tensor in adapter.items() if "lora_B" in name)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_resumed_equals_undisturbed(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch, dropout: float
) -> None:
    whole = planned(tmp_path / "whole", weights, lora={"dropout": dropout})
    fit(whole, "tiny")
    cut = planned(tmp_path / "cut", weights, checkpoint_minutes=1e-6, lora={"dropout": dropout})
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(StoppedError):
            fit(cut, "tiny")
    folder = cut.layout.medemb("tiny") / "checkpoints"
    assert [path.name for path in Checkpoints(folder).all()] == ["000000002", "000000003"]
    end = fit(cut, "tiny")
    assert end.batches == fit(whole, "tiny").batches
    assert end.pairs == 24
    assert largest_difference(adapter_of(whole), adapter_of(cut)) <= 1e-6
    assert any(float(tensor.abs().max()) > 1e-3 for name, tensor in adapter_of(whole).items() if "lora_B" in name)


def test_two_ranks_learn_what_one_learns_from_the_same_pairs(tmp_path: Path, weights: Path) -> None:
    """Two ranks take two batches at once: as one rank would with batches of twice the size.

    With plain descent: Adam and clipping hide a gradient of the wrong length, and grow differences in its last bits.
    """
    options = {
        "batches": {"nominal_pairs": 8, "longest": 256, "most_pairs": 4, "open_batches": 1},
        "clip_norm": 1e9,
        "warmup": 0,
    }
    both = planned(tmp_path / "both", weights, **options)
    (tmp_path / "both" / "options.json").write_text(json.dumps(options))
    assert ranks(tmp_path / "both", 2, PLAIN) == 0
    single = planned(tmp_path / "single", weights, **options)
    batches = training.read_plan(single.layout.medemb("tiny"))
    joined = [[*chain.from_iterable(batches.batches[start : start + 2])] for start in range(0, len(batches.batches), 2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            training, "read_plan", lambda _: training.Batched(batches.plan, batches.file, batches.offset, joined)
        )
        patch.setattr(torch.optim, "AdamW", lambda parameters, lr, **_: torch.optim.SGD(parameters, lr))
        fit(single, "tiny")
    state = json.loads((both.layout.medemb("tiny") / "training.json").read_text())
    assert (state["steps"], state["pairs"]) == (len(joined), 24)
    first, second = ({name: one for name, one in adapter_of(run).items() if "lora_B" in name} for run in (both, single))
    scale = max(float(tensor.abs().max()) for tensor in second.values())
    assert scale > 1e-3, "they begin at zero"
    assert largest_difference(first, second) <= 1e-3 * scale


def test_fewer_ranks_after_a_stop(tmp_path: Path, weights: Path) -> None:
    """A checkpoint of two ranks counts batches, so one rank can go on from it, and two from one of one."""
    options = {"checkpoint_minutes": 1e-6}
    for started, ended in ((2, 1), (1, 2)):
        folder = tmp_path / f"{started} then {ended}"
        run = planned(folder, weights, **options)
        (folder / "options.json").write_text(json.dumps(options))
        assert ranks(folder, started, STOP) != 0
        newest = Checkpoints(run.layout.medemb("tiny") / "checkpoints").all()[-1]
        assert int(newest.name) == 2 * started
        assert ranks(folder, ended) == 0
        end = json.loads((run.layout.medemb("tiny") / "training.json").read_text())
        batches = len(training.read_plan(run.layout.medemb("tiny")).batches)
        assert (end["pairs"], end["batches"], end["ranks"]) == (24, batches, ended)
        assert end["steps"] == 2 + math.ceil((batches - 2 * started) / ended)


def ranks(folder: Path, count: int, before: str = "") -> int:
    """Exit code of a training of what was planned in a folder, on several ranks; each runs ``before`` first."""
    script = folder / "ranks.py"
    script.write_text(before + RANKS.format(tests=str(Path(__file__).parent), folder=str(folder)))
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(count),
        str(script),
    ]
    return subprocess.run(command, check=False, timeout=300, capture_output=True).returncode


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path, weights: Path) -> None:
    run = planned(tmp_path, weights)
    fit(run, "tiny")
    other = run.config.medemb.model_copy(update={"temperature": 0.5})
    changed = Run(**{**vars(run), "config": run.config.model_copy(update={"medemb": other})})
    with pytest.raises(MedhebError, match="belongs to other settings") as caught:
        fit(changed, "tiny")
    assert f"delete all checkpoints, `rm -r {run.layout.medemb('tiny') / 'checkpoints'}`" in caught.value.remedy


def test_what_a_new_plan_does_to_a_finished_training(tmp_path: Path, weights: Path) -> None:
    """As docs/training.md says: equal rows cost nothing, other rows are refused until the checkpoints are deleted."""
    run = planned(tmp_path / "a folder", weights)
    folder = run.layout.medemb("tiny")
    first = fit(run, "tiny")
    make_plan(run, "tiny", folder)
    (folder / "training.json").unlink()  # as Snakemake does before it runs the rule again
    assert fit(run, "tiny") == first, "nothing is trained a second time"
    write_rows(run, {"phrase": [text_row(number) for number in range(20, 28)]})
    make_plan(run, "tiny", folder)
    trained = adapter_of(run)
    with pytest.raises(MedhebError, match="belongs to other training rows, base model or batches") as caught:
        fit(run, "tiny")
    command = caught.value.remedy.split("`")[1]
    assert command == f"rm -r '{folder / 'checkpoints'}'"
    assert largest_difference(adapter_of(run), trained) == 0, "the earlier result stays"
    subprocess.run(command, shell=True, check=True)
    assert fit(run, "tiny").pairs == 8
    assert largest_difference(adapter_of(run), trained) > 0


def test_other_weights_of_the_base_model_are_never_taken_for_the_same(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(weights, mine)
    run = planned(tmp_path / "run", mine, checkpoint_minutes=1e-6)
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(StoppedError):
            fit(run, "tiny")
    tensors = load_file(mine / "model.safetensors")
    save_file({name: tensor + 0.01 for name, tensor in tensors.items()}, mine / "model.safetensors", {"format": "pt"})
    fetch_weights(run, run.models["tiny"])
    with pytest.raises(
        MedhebError, match=r"plan\.json: was made with other weights than those of tiny now\. Plan again"
    ):
        fit(run, "tiny")
    make_plan(run, "tiny", run.layout.medemb("tiny"))
    with pytest.raises(MedhebError, match="belongs to other training rows, base model or batches"):
        fit(run, "tiny")


def test_rows_and_a_training_that_the_plan_does_not_know_are_refused(tmp_path: Path, weights: Path) -> None:
    run = planned(tmp_path, weights)
    fit(run, "tiny")
    end = json.loads((run.layout.medemb("tiny") / "training.json").read_text())
    (run.layout.medemb("tiny") / "training.json").write_text(json.dumps({**end, "plan": "0" * 64}))
    with pytest.raises(MedhebError, match=r"training\.json: is of another plan than plan\.json\. Train again"):
        merge(run, "tiny")
    rows = run.layout.train_data / "phrase_train.jsonl"
    rows.write_text(rows.read_text().replace("number 1", "number one"))
    for command in (fit, merge):
        with pytest.raises(MedhebError, match=r"phrase_train\.jsonl: is not the file that was planned with"):
            command(run, "tiny")


def test_a_checkpoint_from_before_the_first_readable_pair_can_be_taken_up(tmp_path: Path) -> None:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(2))])
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Position(plan="p", settings="s", batches=1), {"a": torch.ones(1)}, {}, optimizer)
    newest = checkpoints.newest("p", "s")
    assert newest is not None
    assert restore(newest[0], optimizer) == {"a": torch.ones(1)}
    assert not optimizer.state_dict()["state"]


def test_the_loss_is_computed_with_the_settings(tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"margin_on": "exponential", "margin": 0.3, "temperature": 0.7}
    good, seen = training.info_nce, list[dict[str, object]]()
    monkeypatch.setattr(training, "info_nce", lambda *a, **k: seen.append(k) or good(*a, **k))
    fit(planned(tmp_path / "plain", weights, **chosen, mask_equal_targets=False), "tiny")
    assert seen
    assert all(options == {**chosen, "equal": None} for options in seen)
    seen.clear()
    fit(planned(tmp_path / "masked", weights, **chosen), "tiny")
    equal = [options.pop("equal") for options in seen]
    assert all(options == chosen for options in seen)
    assert all(bool(one.diagonal().all()) for one in equal)
    assert any(int(one.sum()) > len(one) for one in equal), "some batch has a label twice"


def test_a_damaged_checkpoint_is_named(tmp_path: Path, weights: Path) -> None:
    run = planned(tmp_path, weights)
    fit(run, "tiny")
    newest = Checkpoints(run.layout.medemb("tiny") / "checkpoints").all()[-1]
    path = newest / "optimizer.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(MedhebError, match=f"{newest.name}: is damaged") as caught:
        fit(run, "tiny")
    assert f"Delete it, `rm -r {newest}`, and run the same again" in caught.value.remedy
    for text, why in (("{", "is not JSON"), ("{}", "key 'plan' is missing"), ("[" * 100_000, "nested too deeply")):
        (newest / "state.json").write_text(text)
        with pytest.raises(MedhebError, match=rf"{newest.name}: is damaged \(state\.json .*{why}") as caught:
            fit(run, "tiny")
        assert f"`rm -r {newest}`" in caught.value.remedy
    (run.layout.medemb("tiny") / "training.json").write_text("[]")
    with pytest.raises(MedhebError, match=r"training\.json: is no JSON object\. Train again"):
        merge(run, "tiny")


def test_loss_that_is_no_number_stops_and_names_the_rows(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = planned(tmp_path, weights, checkpoint_minutes=1e-6)
    good, count = training.info_nce, iter(range(100))
    monkeypatch.setattr(
        training, "info_nce", lambda *a, **k: good(*a, **k) * (float("nan") if next(count) == 2 else 1.0)
    )
    monkeypatch.setattr(training, "NAMED", 1)
    with pytest.raises(
        MedhebError, match=r"not a number, with \w+_train\.jsonl byte \d+ and 1 more, named in the log\."
    ):
        fit(run, "tiny")
    plan = training.read_plan(run.layout.medemb("tiny"))
    bad = plan.batches[2]
    assert len(bad) == 2
    assert all(f"in the batch: {plan.name(pair)}" in caplog.text for pair in bad)
    assert Checkpoints(run.layout.medemb("tiny") / "checkpoints").all()[-1].name == "000000002"


def test_gradient_that_is_no_number_stops_before_the_weights_are_spoilt(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path, weights, checkpoint_minutes=1e-6)
    good, count = training.info_nce, iter(range(100))

    def spoilt(*arguments: torch.Tensor, **options: object) -> torch.Tensor:
        loss = good(*arguments, **options)
        if next(count) == 2:
            loss.register_hook(lambda gradient: gradient * float("inf"))
        return loss

    monkeypatch.setattr(training, "info_nce", spoilt)
    with pytest.raises(MedhebError, match=r"gradient that is not a number, with \w+_train\.jsonl byte \d+"):
        fit(run, "tiny")
    newest = Checkpoints(run.layout.medemb("tiny") / "checkpoints").all()[-1]
    assert newest.name == "000000002"
    assert all(bool(tensor.isfinite().all()) for tensor in load_file(newest / "adapter_model.safetensors").values())


def test_an_image_that_went_bad_is_skipped_with_a_count(
    tmp_path: Path, weights: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = planned(tmp_path, weights)
    (run.layout.benchmark / "2D_Images/colours/train/003.png").write_bytes(b"no picture")
    position = fit(run, "tiny")
    assert (position.pairs, position.skipped) == (23, 1)
    assert "003.png is not a readable PNG or JPEG" in caplog.text


def test_batches_of_bad_pairs_alone_are_no_end(tmp_path: Path, weights: Path) -> None:
    run = planned(tmp_path, weights)
    for path in (run.layout.benchmark / "2D_Images/colours/train").glob("*.png"):
        path.write_bytes(b"no picture")
    position = fit(run, "tiny")
    assert (position.pairs, position.skipped) == (12, 12)


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned(tmp_path, weights, checkpoint_minutes=1e-6)
    checkpoints = run.layout.medemb("tiny") / "checkpoints"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(StoppedError):
            fit(run, "tiny")
    before = {path.name: sorted(file.name for file in path.iterdir()) for path in Checkpoints(checkpoints).all()}
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(MedhebError, match=r"cannot be written .* earlier checkpoints are kept"):
            fit(run, "tiny")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert {
        path.name: sorted(file.name for file in path.iterdir()) for path in Checkpoints(checkpoints).all()
    } == before
    assert not list(checkpoints.glob(".*")), "nothing half-written is left"
    assert fit(run, "tiny").pairs == 24
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for command, left in ((fit, "tiny: cannot be written"), (merge, "merged: cannot be written")):
            with pytest.raises(MedhebError, match=f"{left}.*Free some space"):
                command(run, "tiny")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert (merge(run, "tiny") / "README.md").is_file()


def test_asked_to_end_it_saves_and_goes_on_later(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path, weights)
    step, count = training._step, iter(range(100))

    def asked(*arguments: object) -> object:
        if next(count) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training, "_step", asked)
        with pytest.raises(SystemExit) as end:
            fit(run, "tiny")
    assert end.value.code == 143
    assert Checkpoints(run.layout.medemb("tiny") / "checkpoints").all()[-1].name in {"000000002", "000000003"}
    assert fit(run, "tiny").pairs == 24


def test_asked_to_end_with_all_its_workers_it_saves_too(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a wall time every process of the job gets the signal, the workers first or last."""
    run = planned(tmp_path, weights, workers=2)
    read = training.read_ahead

    def asked(*arguments: object) -> Iterator[object]:
        batches = read(*arguments)
        yield next(batches)
        everyone = [*psutil.Process().children(recursive=True), psutil.Process()]
        decoders = [process for process in everyone if "spawn_main" in " ".join(process.cmdline())]
        assert len(decoders) == 2
        for process in everyone:
            process.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(decoders, timeout=1)
        assert len(alive) == 2
        yield from batches

    with monkeypatch.context() as patch:
        patch.setattr(training, "read_ahead", asked)
        with pytest.raises(SystemExit) as end:
            fit(run, "tiny")
    assert end.value.code == 143
    assert Checkpoints(run.layout.medemb("tiny") / "checkpoints").all()[-1].name == "000000002"
    assert fit(run, "tiny").pairs == 24


def test_rate_rises_and_falls() -> None:
    options = planned_options()
    rates = [learning_rate(options, part / 100) for part in range(101)]
    peak = rates.index(max(rates))
    assert peak == 10
    assert rates[0] == 0
    assert rates[10] == pytest.approx(1e-4)
    assert rates[55] == pytest.approx(0.5e-4)
    assert rates[100] == pytest.approx(0, abs=1e-12)


def planned_options() -> training.MedEmb:
    return training.MedEmb(warmup=0.1)


def hits(run: Run) -> float:
    """Share of new pictures whose own colour is nearest."""
    model = run.models["tiny"]
    adapter, encoder = load_adapter(model, run.layout), load_encoder(model, run.layout)
    pictures = {
        ImageRef(f"new/{number}.png", f"{number:064x}"): picture(number % 4, 9000 + number) for number in range(40)
    }
    queries = [
        adapter.prepare(
            adapter.render(
                Item("image", "Which colour is it?", (ref.path,)), "Represent the given image:", "query", (ref,)
            ),
            pictures.__getitem__,
        )
        for ref in pictures
    ]
    targets = [
        adapter.prepare(adapter.render(Item("text", colour, ()), "", "candidate", ()), pictures.__getitem__)
        for colour in NAMES
    ]
    cosines = np.stack([encoder.encode([query])[0] for query in queries]) @ encoder.encode(targets).T
    return float(np.mean(cosines.argmax(1) == np.arange(40) % 4))


def test_trained_and_merged_model_beats_the_untrained_one(tmp_path: Path, weights: Path) -> None:
    """Chance is 1 in 4; of 40 pictures more than 19 right happen to a guesser once in a thousand times."""
    run = made_run(tmp_path, weights, pictures=160, texts=0, learning_rate=3e-3)
    write_rows(run, {"colour": [image_row(f"train/{number:03}.png", number % 4) for number in range(160)]})
    before = hits(run)
    make_plan(run, "tiny", run.layout.medemb("tiny"))
    fit(run, "tiny")
    folder = merge(run, "tiny")
    entry = ModelList.model_validate(yaml.safe_load((folder / "entry.yaml").read_text())).models[0]
    assert entry.id == "medemb_tiny_rebuilt"
    assert entry.facts.train_sources == ("colours",)
    trained = Run(**{**vars(run), "models": {"tiny": entry.model_copy(update={"id": "tiny"})}})
    fetch_weights(trained, trained.models["tiny"])
    after = hits(trained)
    assert after > 19 / 40
    assert after - before > 0.25
    card = (folder / "README.md").read_text()
    assert "160 pairs of 160 rows" in card
    assert f"medheb {medheb.__version__}, " in card
    assert f"torch {torch.__version__.partition('+')[0]}" in card
    assert "on 1 ranks" in card
    assert data_root(run, run.tasks["colour"]) in card
    assert str(tmp_path) not in card
    assert not list(folder.glob("*.bin"))
    assert text_row(1)["messages"][1]["content"] not in card
    shutil.rmtree(folder)
