"""RO-Crate, Croissant, BagIt: what they hold, what they keep back, and that the ecosystem's validators accept them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from audit_bench import FOLDERS, SECRETS, A, Bench, Told, encode, pixels

from medheb.audit.commands import export_command
from medheb.audit.export_bag import export_bag
from medheb.audit.export_crate import export_crate
from medheb.audit.export_croissant import export_croissant
from medheb.audit.provenance import write_provenance
from medheb.audit.schema import read_roots, roots_path
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError

ROOT = Path(__file__).parents[2]
SECRET_PARTS = (*SECRETS, "p10/", FOLDERS["gamma"])
CHECK_CROISSANT = "import sys, mlcroissant as c; d = c.Dataset(sys.argv[1]); print(d.metadata.issues.report())"
CHECK_BAG = "import sys, bagit; bagit.Bag(sys.argv[1]).validate()"


@pytest.fixture
def finished(recorded: Bench) -> Bench:
    """A recorded run with its provenance and a report."""
    write_provenance(recorded.run, read_roots(roots_path(recorded.layout)), Told())
    recorded.layout.report.mkdir()
    for name in ("leaderboard.csv", "tasks.csv", "summary.json"):
        (recorded.layout.report / name).write_text("{}\n")
    return recorded


@pytest.fixture(scope="session")
def validators() -> str:
    """Interpreter of the validators' own environment."""
    named = os.environ.get("MEDHEB_VALIDATORS_PYTHON")
    python = Path(named) if named else ROOT / ".venv-validators" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no validators at {python}: see envs/validators.in")
    return str(python)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a validator without network: a proxy that nobody serves."""
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **offline})


def crate(bench: Bench, folder: Path) -> dict[str, dict[str, object]]:
    export_crate(bench.run, folder, ROOT)
    graph = json.loads((folder / "ro-crate-metadata.json").read_bytes())["@graph"]
    found = {entity["@id"]: entity for entity in graph}
    assert len(found) == len(graph), "no two entities of one id"
    return found


def test_crate_holds_the_run_and_digests_of_its_files(finished: Bench, tmp_path: Path) -> None:
    entities = crate(finished, tmp_path / "crate")
    listed = {name for name, entity in entities.items() if "File" in entity["@type"] or entity["@type"] == "File"}
    there = {
        path.relative_to(tmp_path / "crate").as_posix() for path in (tmp_path / "crate").rglob("*") if path.is_file()
    }
    assert there == listed | {"ro-crate-metadata.json"}
    for name in listed:
        content = (tmp_path / "crate" / name).read_bytes()
        assert (entities[name]["sha256"], entities[name]["contentSize"]) == (sha256_bytes(content), str(len(content)))
    assert {"Snakefile", "configuration.json", "audit/roots.json", "report/leaderboard.csv"} <= listed
    assert {"scores/random/alpha_i2i.json", "scores/random/alpha_i2i.parquet"} <= listed
    action = entities["#run"]
    assert {one["@id"] for one in action["result"]} >= {"audit/roots.json"}  # type: ignore[index,attr-defined]
    alpha = read_roots(roots_path(finished.layout)).sources["alpha"]
    assert entities["#source-alpha"]["value"] == alpha.roots["L2"]


def test_crate_keeps_back_what_must_not_be_shown(finished: Bench, tmp_path: Path) -> None:
    entities = crate(finished, tmp_path / "crate")
    assert not any("gamma_i2i" in name or "beta_i2i" in name for name in entities)
    assert not any(name.startswith("report/") and "leaderboard" not in name for name in entities)
    for path in (tmp_path / "crate").rglob("*"):
        if path.is_file():
            assert not any(part.encode() in path.read_bytes() for part in SECRET_PARTS), path


def test_leftovers_in_the_audit_folder_stay_behind(finished: Bench, tmp_path: Path) -> None:
    for name in ("gamma/SHA256SUMS", "old/digests.json", "notes.txt"):
        (finished.layout.audit / name).parent.mkdir(exist_ok=True)
        (finished.layout.audit / name).write_text(f"{SECRETS[0]}.png")
    entities = crate(finished, tmp_path / "crate")
    assert {"audit/alpha/SHA256SUMS", "audit/gamma/digests.json", "audit/provenance.json"} <= entities.keys()
    assert not {"audit/gamma/SHA256SUMS", "audit/old/digests.json", "audit/notes.txt"} & entities.keys()
    assert not any(
        SECRETS[0].encode() in path.read_bytes() for path in (tmp_path / "crate").rglob("*") if path.is_file()
    )


def test_no_crate_of_a_source_that_became_restricted_after_recording(finished: Bench, tmp_path: Path) -> None:
    alpha = finished.run.datasets["alpha"]
    finished.run.datasets["alpha"] = alpha.model_copy(update={"show_content": False})
    with pytest.raises(MedhebError, match=r"names files of source alpha, which may not be shown.*snakemake audit"):
        export_crate(finished.run, tmp_path / "crate", ROOT)
    assert not (tmp_path / "crate").exists()


def test_crate_repeats(finished: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    first = crate(finished, tmp_path / "one")
    assert crate(finished, tmp_path / "two") == first
    assert first["./"]["datePublished"] == "1970-01-01T00:00:00+00:00"


def test_edited_audit_folder_is_not_exported(finished: Bench, tmp_path: Path) -> None:
    path = finished.layout.audit / "alpha" / "digests.json"
    path.write_text(path.read_text().replace('"file_count": 6', '"file_count": 7'))
    with pytest.raises(MedhebError, match=r"alpha/digests.json: says something else than roots.json"):
        export_crate(finished.run, tmp_path / "crate", ROOT)


@pytest.mark.parametrize(
    "profile", ["ro-crate-1.1", "workflow-ro-crate-1.0", "process-run-crate-0.5", "workflow-run-crate-0.5"]
)
def test_crate_validates(finished: Bench, tmp_path: Path, validators: str, profile: str) -> None:
    crate(finished, tmp_path / "crate")
    script = str(Path(__file__).with_name("validate_crate.py"))
    done = run(validators, script, profile, str(tmp_path / "crate"))
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    path = tmp_path / "crate" / "ro-crate-metadata.json"
    content = json.loads(path.read_bytes())
    for entity in content["@graph"]:
        entity.pop("instrument", None)
        entity.pop("license", None)
    path.write_text(json.dumps(content))
    broken = run(validators, script, profile, str(tmp_path / "crate"))
    assert (broken.returncode, broken.stderr) == (1, ""), "the validator does look"


def test_croissant_says_licence_terms_and_digests(finished: Bench, tmp_path: Path) -> None:
    content = json.loads(export_croissant(finished.run, "alpha", tmp_path).read_bytes())
    assert (content["license"], content["usageInfo"]) == ("https://example.org/terms",) * 2
    sums = finished.layout.audit / "alpha" / "SHA256SUMS"
    first, archive, *sets = content["distribution"]
    assert first["sha256"] == sha256_bytes(sums.read_bytes())
    assert (archive["name"], archive["sha256"]) == ("alpha.whl", sha256_bytes(b"alpha"))
    assert {one["includes"] for one in sets} == {"2D_Images/alpha/**/*.json", "2D_Images/alpha/**/*.png"}
    assert read_roots(roots_path(finished.layout)).sources["alpha"].roots["L2"] in content["description"]


def test_only_what_may_be_passed_on_and_was_built(
    finished: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for make in (export_croissant, export_bag):
        with pytest.raises(MedhebError, match=r"source 'gamma': may not be passed on under its terms"):
            make(finished.run, "gamma", tmp_path / "out")
        with pytest.raises(MedhebError, match=r"source 'beta': is not built: index: no network"):
            make(finished.run, "beta", tmp_path / "out")
        with pytest.raises(MedhebError, match=r"source 'kvasir': is not part of this run. Allowed: alpha"):
            make(finished.run, "kvasir", tmp_path / "out")
    export_command(finished.run, "croissant", tmp_path / "all")
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [
        "alpha.croissant.json",
        "delta.croissant.json",
    ]
    assert "left out: source 'gamma'" in capsys.readouterr().out
    with pytest.raises(MedhebError, match="got no --source"):
        export_command(finished.run, "bagit", tmp_path / "bag")


def test_croissant_validates(finished: Bench, tmp_path: Path, validators: str) -> None:
    path = export_croissant(finished.run, "alpha", tmp_path)
    done = run(validators, "-c", CHECK_CROISSANT, str(path))
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr
    content = json.loads(path.read_bytes())
    del content["distribution"][0]["sha256"]
    path.write_text(json.dumps(content))
    assert "sha256" in (broken := run(validators, "-c", CHECK_CROISSANT, str(path))).stdout + broken.stderr


def test_bag(finished: Bench, tmp_path: Path) -> None:
    assert export_bag(finished.run, "alpha", tmp_path / "bag") == 6
    manifest = (tmp_path / "bag" / "manifest-sha256.txt").read_text()
    assert "  data/2D_Images/alpha/new%0Aline.png\n" in manifest
    assert (tmp_path / "bag" / "data" / A).read_bytes() == finished.image("a.png").read_bytes()
    done = subprocess.run(
        ["sha256sum", "--quiet", "--strict", "-c", "tagmanifest-sha256.txt"], cwd=tmp_path / "bag", check=False
    )
    assert done.returncode == 0
    assert "Payload-Oxum: " in (tmp_path / "bag" / "bag-info.txt").read_text()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_bytes(encode(pixels(1))), "is not as recorded"),
        (lambda path: path.unlink(), "vanished"),
        (lambda path: (path.unlink(), path.symlink_to("b.png")), "cannot be read"),
    ],
    ids=["changed", "missing", "link"],
)
def test_bag_of_a_damaged_source_is_refused(finished: Bench, tmp_path: Path, damage: object, says: str) -> None:
    damage(finished.image("a.png"))  # type: ignore[operator]
    with pytest.raises(MedhebError, match=rf"a.png: {says}.*audit verify --source alpha"):
        export_bag(finished.run, "alpha", tmp_path / "bag")
    assert not (tmp_path / "bag").exists()


def test_bag_validates(finished: Bench, tmp_path: Path, validators: str) -> None:
    export_bag(finished.run, "alpha", tmp_path / "bag")
    done = run(validators, "-c", CHECK_BAG, str(tmp_path / "bag"))
    assert done.returncode == 0, done.stderr
    (tmp_path / "bag" / "data" / A).write_bytes(b"x")
    assert run(validators, "-c", CHECK_BAG, str(tmp_path / "bag")).returncode != 0
