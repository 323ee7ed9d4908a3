"""How everything was made: rules, inputs, code and parameters, without a path or text of a restricted source."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from audit_bench import FOLDERS, SECRETS, Bench, Told

from medheb.audit.environment import container, describe_environment, gpus
from medheb.audit.provenance import Provenance, provenance_path, read_provenance, write_provenance
from medheb.audit.schema import read_roots, roots_path
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError

RULES = Path(__file__).parents[2] / "workflow" / "rules"


def provenance(bench: Bench) -> Provenance:
    write_provenance(bench.run, read_roots(roots_path(bench.layout)), Told())
    return read_provenance(provenance_path(bench.layout))


def test_every_artefact_says_how_it_was_made(recorded: Bench) -> None:
    made = provenance(recorded)
    roots = read_roots(roots_path(recorded.layout))
    assert {name.partition("/")[0] for name in made.artefacts} == {
        "archives", "source", "index", "weights", "embeddings", "scores",
    }  # fmt: skip
    alpha = made.artefacts["source/alpha"]
    assert (alpha.rule, alpha.inputs, alpha.code) == ("build_images", ("archives/alpha",), "build_code-alpha")
    assert alpha.parameters == {"recipe": "pictures", "recipe_version": 2}
    assert alpha.digests == {level: roots.sources["alpha"].roots[level] for level in ("L1", "L2")}
    score = made.artefacts["scores/random/alpha_i2i"]
    assert score.inputs == ("embeddings/random/alpha", "index/alpha_i2i", "source/alpha")
    assert score.parameters["protocol"] == "corrected"
    assert score.digests == roots.scores.entries["random/alpha_i2i"].digests
    assert made.artefacts["source/beta"].digests == {}
    for artefact in made.artefacts.values():
        assert set(artefact.inputs) <= made.artefacts.keys(), "every input is an artefact that is explained too"


def test_rules_are_those_of_the_workflow(recorded: Bench) -> None:
    text = "".join(path.read_text() for path in RULES.glob("*.smk"))
    rules = set(re.findall(r"^rule (\w+):", text, flags=re.MULTILINE))
    assert {artefact.rule for artefact in provenance(recorded).artefacts.values()} | {"fit_bridge"} <= rules


def test_nothing_of_the_machine_or_of_a_restricted_source(recorded: Bench) -> None:
    provenance(recorded)
    text = provenance_path(recorded.layout).read_text()
    assert not any(secret in text for secret in (*SECRETS, "p10/", FOLDERS["gamma"], str(recorded.layout.results)))
    first = text
    provenance(recorded)
    assert provenance_path(recorded.layout).read_text() == first


def test_other_version_is_refused(recorded: Bench) -> None:
    provenance(recorded)
    path = provenance_path(recorded.layout)
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(MedhebError, match=r"provenance.json: has schema version 2. Allowed: 1"):
        read_provenance(path)


def test_container(tmp_path: Path) -> None:
    assert container({}) is None
    assert container({"MEDHEB_CONTAINER": "medheb@sha256:12ab"}) == {"name": "medheb", "sha256": "12ab"}
    assert container({"MEDHEB_CONTAINER": "medheb"}) == {"name": "medheb", "sha256": "unknown"}
    image = tmp_path / "medheb.sif"
    assert container({"APPTAINER_CONTAINER": str(image)}) == {"name": "medheb.sif", "sha256": "unknown"}
    image.write_bytes(b"image")
    assert container({"SINGULARITY_CONTAINER": str(image)}) == {"name": "medheb.sif", "sha256": sha256_bytes(b"image")}


def test_graphics_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, 570.1'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert gpus() == [{"name": "NVIDIA H200", "driver": "570.1"}]
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert gpus() == []
    monkeypatch.setenv("PATH", "/nowhere")
    assert json.dumps(describe_environment()).count('"gpus": []') == 1
