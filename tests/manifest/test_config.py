"""Configuration: generated files do not drift, and a wrong value gives one helpful line."""

from pathlib import Path

import pytest
import yaml

from medheb.core.errors import MedhebError
from medheb.manifest.config import Config
from medheb.manifest.load import load_config, load_dataset, load_models, load_run, load_tasks
from medheb.manifest.schema import drifted

ROOT = Path(__file__).resolve().parents[2]


def test_generated_files_match_the_models() -> None:
    assert drifted(ROOT) == [], "run `make fix`"


def test_default_config_equals_the_defaults() -> None:
    assert load_config([ROOT / "config" / "config.yaml"]) == load_config([])


def test_later_files_win_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("paths: {results: r, sources: s}\nseed: 1\n")
    (tmp_path / "b.yaml").write_text("paths: {results: q}\n")
    config = load_config([tmp_path / "a.yaml", tmp_path / "b.yaml"], {"strict": True})
    assert (config.paths.results, config.paths.sources, config.seed, config.strict) == ("q", "s", 1, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("protocl: release", r"c\.yaml: key 'protocl' is not known\. Remove it or correct its spelling"),
        ("protocol: best", r"c\.yaml: key 'protocol' is 'best'\. Allowed: 'release' or 'corrected'"),
        ("seed: -1", r"c\.yaml: key 'seed' is -1\. Allowed: greater than or equal to 0"),
        ("seed: many", r"c\.yaml: key 'seed' is 'many'\. Allowed: a valid integer"),
        ("paths: {results: ''}", r"c\.yaml: key 'paths\.results' is ''"),
        ("manifests: ../other", r"c\.yaml: key 'manifests' is '\.\./other'\. Allowed: a path inside its folder"),
        ("embed: {shard_inputs: 0}", r"key 'embed\.shard_inputs' is 0\. Allowed: greater than or equal to 1"),
        ("datasets: ct_a", r"c\.yaml: key 'datasets' is 'ct_a'\. Allowed: 'all', or a list such as \[ct_a\]$"),
        ("seed: 1\nseed: 2", r"c\.yaml: is not valid YAML at line 2: key 'seed' stands twice"),
        ("paths: 5", r"key 'paths' is 5\. Allowed: a valid set of keys and values$"),
        ("a: [1", r"c\.yaml: is not valid YAML at line"),
        ("- a\n- b", r"c\.yaml: does not hold keys and values"),
    ],
)
def test_wrong_config_gives_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(MedhebError, match=message) as caught:
        load_config([tmp_path / "c.yaml"])
    assert "\n" not in str(caught.value)


def test_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=r"nowhere\.yaml: does not exist"):
        load_config([tmp_path / "nowhere.yaml"])


def demo(name: str) -> Path:
    return ROOT / "manifests" / "demo" / name


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("files", 0, "sha256"), "abc", r"key 'files\.0\.sha256' is 'abc'\. Allowed: text that matches"),
        (("files", 0, "path"), "../evil", r"key 'files\.0\.path' is '\.\./evil'"),
        (("access",), "free", r"key 'access' is 'free'\. Allowed: 'open', 'registration'"),
        (("images",), "/etc", r"key 'images' is '/etc'"),
        (("licence", "colour"), "red", r"key 'licence\.colour' is not known"),
        (("id",), "other_name", r"holds id 'other_name'\. Rename the file"),
        (("access",), "restricted", r"redistribution and show_content: false"),
    ],
)
def test_wrong_manifest_gives_one_line(tmp_path: Path, path: tuple[str | int, ...], value: str, message: str) -> None:
    content = yaml.safe_load(demo("datasets/icd10cm.yaml").read_text())
    place = content
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    (tmp_path / "icd10cm.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(MedhebError, match=message) as caught:
        load_dataset(tmp_path / "icd10cm.yaml")
    assert "\n" not in str(caught.value)


def test_wrong_task_names_its_row(tmp_path: Path) -> None:
    lines = demo("tasks.tsv").read_text().splitlines()
    broken = lines[1].replace("\tlocal\t", "\tnearby\t").replace("\tglobal\t", "\tnearby\t")
    (tmp_path / "tasks.tsv").write_text("\n".join([lines[0], broken]))
    with pytest.raises(MedhebError, match=r"tasks\.tsv row 2: key 'pool' is 'nearby'\. Allowed: 'local' or 'global'"):
        load_tasks(tmp_path / "tasks.tsv")
    (tmp_path / "tasks.tsv").write_text("\n".join([lines[0], lines[1], lines[1]]))
    with pytest.raises(MedhebError, match="row 3: repeats task or index"):
        load_tasks(tmp_path / "tasks.tsv")
    (tmp_path / "tasks.tsv").write_text("\n".join([lines[0], lines[1] + "\tmore"]))
    with pytest.raises(MedhebError, match="row 2: has more or fewer columns than the head"):
        load_tasks(tmp_path / "tasks.tsv")
    (tmp_path / "tasks.tsv").write_text("task\tform\n")
    with pytest.raises(MedhebError, match="has columns"):
        load_tasks(tmp_path / "tasks.tsv")


def test_wrong_model_names_its_key(tmp_path: Path) -> None:
    content = yaml.safe_load(demo("models.yaml").read_text())
    content["models"][-1]["adapter"]["name"] = "oracle"
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(
        MedhebError,
        match=r"key 'models\.3\.adapter' is .*Allowed for its key 'name': 'dual_encoder', 'random', 'constant'",
    ):
        load_models(tmp_path / "models.yaml")


def test_selection_and_unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    everything = load_run(load_config([]))
    key = next(iter(everything.tasks))
    one = load_run(load_config([], {"tasks": [key], "models": ["efficientnet_minilm"]}))
    assert list(one.tasks) == [key]
    assert set(one.models) == {"efficientnet_minilm", "random", "constant"}, "canaries run whatever is chosen"
    assert set(everything.tasks[key].sources) <= set(one.datasets)
    with pytest.raises(MedhebError, match=r"key 'models' is 'gpt'.*Allowed:.*efficientnet_minilm"):
        load_run(load_config([], {"models": ["gpt"]}))


@pytest.mark.parametrize(
    ("protocol", "drr", "chosen"),
    [
        ("release", {}, "release"),
        ("corrected", {}, "cone"),
        ("corrected", {"python": "/opt/deepdrr/bin/python"}, "deepdrr"),
        ("release", {"python": "/opt/deepdrr/bin/python"}, "release"),
        ("release", {"projector": "cone"}, "cone"),
    ],
)
def test_projector_follows_the_protocol_unless_it_is_named(protocol: str, drr: dict[str, str], chosen: str) -> None:
    config = Config.model_validate({"protocol": protocol, "drr": drr})
    assert config.drr.chosen(config.protocol) == chosen
