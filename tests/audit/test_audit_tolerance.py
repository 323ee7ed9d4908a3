"""L3: projected radiographs are within tolerance or not, also of a source that is withheld."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from audit_bench import FOLDERS, OK, Bench, edit, encode, findings, only, unit, write_roots

from medheb.audit.compare import compare
from medheb.audit.record import record_digests
from medheb.audit.schema import private_record_path, read_source_record, record_path, roots_path
from medheb.audit.tolerance import compare_grids, grid_digest, read_grid
from medheb.audit.verdicts import EXIT_MISMATCH, EXIT_OK
from medheb.audit.verify import verify
from medheb.build.inventory import read_inventory, write_inventory


def xray(shift: int = 0, seed: int = 0, side: int = 96) -> np.ndarray:
    """A radiograph-like picture; ``shift`` moves every third pixel by as many levels."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    picture = (90 + 60 * np.sin(x / 13) * np.cos(y / 17) + rng.integers(0, 9, (side, side))).astype(np.uint8)
    picture[::3] += np.uint8(shift)
    return picture


def grid(content: bytes) -> str:
    """L3 of a picture that has one."""
    text = grid_digest(content)
    assert text is not None
    return text


def project(bench: Bench, source: str, projector: str = "deepdrr") -> Path:
    """Let one picture of a source come from a projector, and record the run."""
    name = {"alpha": "a.png", "gamma": "p10/p10000032_s50414267.png"}[source]
    bench.image(name, source).write_bytes(encode(xray()))
    where = bench.layout.inventory(FOLDERS[source], source)
    before = read_inventory(where)
    bench.inventory(source, [file.path for file in before.files], OK)
    after = read_inventory(where)
    files = [
        file.model_copy(update={"facts": {"projector": projector}}) if file.path == name else file
        for file in after.files
    ]
    write_inventory(where, after.model_copy(update={"files": tuple(files)}))
    bench.evaluate(source)
    record_digests(bench.run, source)
    write_roots(bench.run)
    return bench.image(name, source)


def test_the_grid_repeats_and_tells_size_and_means() -> None:
    text = grid(encode(xray()))
    assert grid(encode(xray(), 1)) == text
    read = read_grid(text)
    assert (read.mode, read.size) == ("L", "96x96")
    assert read.means[0, 0] == pytest.approx(xray()[:3, :3].mean(), abs=1 / 256)
    uneven = xray(side=70)[:, :33]
    assert read_grid(grid(encode(uneven))).means[-1, -1] == pytest.approx(uneven[67:, 31:].mean(), abs=1 / 256)
    for wrong in (np.zeros((8, 8), np.uint8), np.zeros((64, 64, 3), np.uint8)):
        assert grid_digest(encode(wrong)) is None


def test_bounds() -> None:
    base = grid(encode(xray()))
    assert compare_grids(base, base) == (True, "blocks differ by up to 0.00 grey levels, PSNR inf dB")
    near = xray()
    near[0, 0] += 4
    assert compare_grids(base, grid(encode(near)))[0]
    near[0, 0] += 4
    within, words = compare_grids(base, grid(encode(near)))
    assert (within, words.startswith("blocks differ by up to 0.89")) == (False, True)
    assert compare_grids(base, grid(encode(xray(side=64)))) == (False, "is L 64x64, not L 96x96")
    assert compare_grids(base, "grid1:L:96x96:AAAA") == (False, "its L3 record cannot be read")


@pytest.mark.parametrize("projector", ["release", "cone", "deepdrr"])
def test_within_tolerance_and_out_of_it(whole: Bench, projector: str) -> None:
    path = project(whole, "alpha", projector)
    record = read_source_record(record_path(whole.layout, "alpha"))
    assert [name for name, file in record.files.items() if file.L3] == ["2D_Images/alpha/a.png"]
    assert set(record.roots) == {"L0", "L1", "L2", "L3"}
    assert verify(whole.run).verdict == "IDENTICAL"
    near = xray()
    near[5, 5] += 2
    path.write_bytes(encode(near))
    verification = verify(whole.run)
    found = only(verification)
    assert (found.verdict, verification.exit_code) == ("WITHIN-TOLERANCE", EXIT_OK)
    assert "within the declared tolerance: blocks differ by up to 0.22 grey levels" in found.reason
    near[40:60, 40:60] += 3
    path.write_bytes(encode(near))
    found = only(verify(whole.run))
    assert found.verdict == "MISMATCH"
    assert "out of the declared tolerance: blocks differ by up to 3.00 grey levels" in found.reason
    path.write_bytes(encode(xray(), 1))
    assert only(verify(whole.run)).verdict == "EQUIVALENT"


def test_pictures_without_a_projector_declare_no_tolerance(whole: Bench) -> None:
    path = project(whole, "alpha", "none")
    near = xray()
    near[5, 5] += 1
    path.write_bytes(encode(near))
    assert only(verify(whole.run)).verdict == "MISMATCH"


def test_edited_grid_is_found(whole: Bench) -> None:
    project(whole, "alpha")
    path = record_path(whole.layout, "alpha")
    content = json.loads(path.read_bytes())
    content["files"]["2D_Images/alpha/a.png"]["L3"] = grid_digest(encode(xray(seed=5)))
    path.write_text(json.dumps(content))
    assert (
        "its L3 root is not that of the digests it lists"
        in findings(verify(whole.run), "audit folder")["alpha/digests.json"].reason
    )


def test_withheld_source_is_judged_by_a_record_that_stays_here(whole: Bench, tmp_path: Path) -> None:
    path = project(whole, "gamma")
    private = private_record_path(whole.layout, "gamma")
    assert not private.is_relative_to(whole.layout.audit)
    assert len(read_source_record(private).files) == 2
    public = read_source_record(record_path(whole.layout, "gamma"))
    assert (public.files, set(public.roots)) == ({}, {"L0", "L1", "L2", "L3"})
    near = xray()
    near[5, 5] += 2
    path.write_bytes(encode(near))
    # built anew on another machine: its own inventory is not the recorded one
    whole.inventory(
        "gamma", [file.path for file in read_inventory(whole.layout.inventory(FOLDERS["gamma"], "gamma")).files], OK
    )
    verification = verify(whole.run, "gamma")
    assert unit(verification, "audit folder").verdict == "IDENTICAL"
    assert unit(verification, "gamma").counts == {"IDENTICAL": 1, "WITHIN-TOLERANCE": 1}
    assert "p10000032" not in verification.model_dump_json()
    shutil.rmtree(private.parent)
    assert verify(whole.run, "gamma").exit_code == EXIT_MISMATCH


def nudge(bench: Bench, path: Path, source: str, *changes: tuple[int, int, int]) -> None:
    """Give single pixels of the radiograph another level, and record the run again."""
    near = xray().astype(np.int64)
    for row, column, levels in changes:
        near[row, column] += levels
    path.write_bytes(encode(near.astype(np.uint8)))
    where = bench.layout.inventory(FOLDERS[source], source)
    facts = {file.path: file.facts for file in read_inventory(where).files}
    bench.inventory(source, list(facts), OK)
    built = read_inventory(where)
    files = tuple(file.model_copy(update={"facts": facts[file.path]}) for file in built.files)
    write_inventory(where, built.model_copy(update={"files": files}))
    bench.evaluate(source)
    record_digests(bench.run, source)
    write_roots(bench.run)


SAME_MEANS = ((4, 4, 1), (5, 5, -1))  # both in one block of 3 x 3


@pytest.mark.parametrize(
    ("changes", "verdict", "says"),
    [
        (SAME_MEANS, "WITHIN-TOLERANCE", "and so are the block means of all radiographs"),
        (((5, 5, 2),), "MISMATCH", "roots cannot tell whether within the tolerance"),
    ],
    ids=["same means", "other means"],
)
def test_folders_of_a_withheld_source_are_compared_by_what_roots_can_tell(
    whole: Bench, tmp_path: Path, changes: tuple[tuple[int, int, int], ...], verdict: str, says: str
) -> None:
    path = project(whole, "gamma")
    before = Path(shutil.copytree(whole.layout.audit, tmp_path / "elsewhere" / "audit"))
    nudge(whole, path, "gamma", *changes)
    found = unit(compare(before, whole.layout.audit), "gamma")
    assert (found.verdict, found.withheld) == (verdict, True)
    assert (
        "by roots alone; 2 files in the first, 2 in the second; all without a declared tolerance are equal"
        in found.reason
    )
    assert says in found.reason
    other = whole.image("p10/p10000032_s53189527.png", "gamma")
    other.write_bytes(encode(xray(seed=3)))
    nudge(whole, path, "gamma", *changes)
    found = unit(compare(before, whole.layout.audit), "gamma")
    assert (found.verdict, found.reason) == ("MISMATCH", "by roots alone; 2 files in the first, 2 in the second")


@pytest.mark.parametrize(("levels", "verdict"), [(2, "WITHIN-TOLERANCE"), (90, "MISMATCH")])
def test_full_records_beside_both_folders_decide_without_a_name(
    whole: Bench, tmp_path: Path, levels: int, verdict: str
) -> None:
    path = project(whole, "gamma")
    shutil.copytree(whole.layout.results, tmp_path / "before")
    nudge(whole, path, "gamma", (5, 5, levels))
    comparison = compare(tmp_path / "before" / "audit", whole.layout.audit)
    found = unit(comparison, "gamma")
    assert found.counts == {"IDENTICAL": 1, verdict: 1}
    assert found.reason.startswith("by the full records that lie here")
    assert not any(secret in comparison.model_dump_json() for secret in ("p10000032", "p10/"))
    assert not any("a model's vectors differ" in line for line in comparison.explanation)
    private = tmp_path / "before" / "audit-private" / "gamma" / "digests.json"
    edit(private, grid(encode(xray())), grid(encode(xray(seed=5))))
    assert "by roots alone" in unit(compare(tmp_path / "before" / "audit", whole.layout.audit), "gamma").reason


@pytest.mark.parametrize(("changes", "verdict"), [(SAME_MEANS, "WITHIN-TOLERANCE"), (((5, 5, 2),), "MISMATCH")])
def test_withheld_source_without_its_full_record_is_judged_by_what_roots_can_tell(
    whole: Bench, changes: tuple[tuple[int, int, int], ...], verdict: str
) -> None:
    path = project(whole, "gamma")
    audit = shutil.copytree(whole.layout.audit, whole.layout.results / "kept")
    nudge(whole, path, "gamma", *changes)
    shutil.rmtree(whole.layout.audit)
    shutil.rmtree(private_record_path(whole.layout, "gamma").parent)
    audit.rename(whole.layout.audit)
    found = unit(verify(whole.run, "gamma"), "gamma")
    assert found.verdict == verdict
    assert "all without a declared tolerance are as recorded" in found.reason


def test_edited_root_of_what_declares_no_tolerance_is_found(whole: Bench) -> None:
    project(whole, "alpha")
    path = record_path(whole.layout, "alpha")
    exact = read_source_record(path).exact
    assert exact is not None
    path.write_text(path.read_text().replace(exact, "0" * 64))
    assert "no tolerance" in findings(verify(whole.run), "audit folder")["alpha/digests.json"].reason
    edit(roots_path(whole.layout), exact, "0" * 64)
    faults = findings(compare(whole.layout.audit, whole.layout.audit), "audit folders")
    assert "edited after recording" in faults["first/alpha/digests.json"].reason
