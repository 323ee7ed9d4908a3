"""What `medheb doctor --slurm` says of the GPU of a probe: granted, shown by the driver, used by torch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from medheb.cluster import doctor
from medheb.cluster.doctor import TOOLS, diagnose_cluster
from medheb.cluster.probe import FATAL, probe
from medheb.cluster.submission import Ended
from medheb.fetch.doctor import Check
from medheb.manifest.load import load_config, load_run

ROOT = Path(__file__).resolve().parents[2]


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for NVIDIA's tool, in a job that was granted a GPU."""
    tool = folder / "nvidia-smi"
    tool.write_text('#!/bin/sh\n[ "$1" = -L ] && echo "GPU 0: NVIDIA H100" || echo 535.104.05\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


def torch_of(cuda: str | None, gpus: int, trouble: Exception | None = None) -> ModuleType:
    """A stand-in for a build of torch."""

    def ones(_size: int, device: str) -> SimpleNamespace:
        assert device == "cuda"
        if trouble:
            raise trouble
        return SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: 1.0))

    module = ModuleType("torch")
    content = {
        "__version__": "2.13.0",
        "version": SimpleNamespace(cuda=cuda),
        "cuda": SimpleNamespace(device_count=lambda: gpus),
        "ones": ones,
    }
    module.__dict__.update(content)
    return module


OLD_DRIVER = RuntimeError("The NVIDIA driver on your system is too old (found version 12020).\nPlease update it.")


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (torch_of("13.0", 1), {"version": "2.13.0", "cuda": "13.0", "gpus": 1, "trouble": ""}),
        (torch_of(None, 0), {"version": "2.13.0", "cuda": None, "gpus": 0, "trouble": ""}),
        (
            torch_of("13.0", 1, OLD_DRIVER),
            {
                "version": "2.13.0",
                "cuda": "13.0",
                "gpus": 1,
                "trouble": "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
            },
        ),
        (None, {"version": None, "cuda": None, "gpus": 0}),
    ],
    ids=["good", "cpu build", "old driver", "no torch"],
)
def test_a_probe_tells_what_torch_makes_of_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType | None, expected: dict[str, object]
) -> None:
    nvidia_smi(tmp_path, monkeypatch)
    monkeypatch.setitem(sys.modules, "torch", module)  # None: its import fails
    found = probe(tmp_path / "found.json")
    assert (found["driver"], found["driver_version"]) == (["GPU 0: NVIDIA H100"], "535.104.05")
    told = found["torch"]
    assert isinstance(told, dict)
    assert {**told, **expected} == told
    assert json.loads((tmp_path / "found.json").read_bytes()) == found
    if module is None:
        assert "import of torch halted" in told["trouble"]


def test_a_torch_that_takes_the_job_with_it_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os\nos.abort()\n")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho GPU 0\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "0"}
    environment["PYTHONPATH"] = f"{tmp_path}:{ROOT / 'scripts'}"
    file = tmp_path / "found.json"
    done = subprocess.run([sys.executable, "-m", "medheb.cluster.probe", str(file)], env=environment, check=False)
    assert done.returncode != 0
    assert json.loads(file.read_bytes())["torch"] == FATAL


def test_a_probe_without_a_gpu_leaves_torch_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    nvidia_smi(tmp_path, monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert probe(tmp_path / "found.json")["torch"] is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert probe(tmp_path / "found.json")["torch"] is None, "granted, but no driver"


CPU_BUILD = {"version": "2.13.0+cpu", "cuda": None, "gpus": 0, "trouble": ""}
FOUND = {
    "node": "gpu7",
    "medheb": "0.1.0",
    "python": "3.11.9",
    "cores": 1,
    "granted": "0",
    "driver": ["GPU 0: NVIDIA H100"],
    "driver_version": "535.104.05",
    "torch": CPU_BUILD,
}
SHOWN = "granted: 0, GPU 0: NVIDIA H100, driver 535.104.05"
OTHER_BUILD = (
    f"Install a build of torch for driver 535.104.05 in the environment {sys.prefix}, with the pins of envs/core"
)


@pytest.mark.parametrize(
    ("change", "found", "remedy"),
    [
        ({"granted": "", "driver": [], "torch": None}, "no GPU was granted", "(gpu.request) to the other"),
        ({"driver": [], "torch": None}, "granted: 0, but NVIDIA's driver shows none", "Ask the administrators"),
        (
            {},
            f"{SHOWN}, but torch 2.13.0+cpu (a build without CUDA) sees none: jobs would compute on the CPU",
            OTHER_BUILD,
        ),
        (
            {"torch": {"version": "2.13.0", "cuda": "13.0", "gpus": 0, "trouble": "RuntimeError: No CUDA GPUs"}},
            f"{SHOWN}, but torch 2.13.0 (for CUDA 13.0) sees none (RuntimeError: No CUDA GPUs): jobs would compute on",
            OTHER_BUILD,
        ),
        (
            {"torch": {"version": "2.13.0", "cuda": "13.0", "gpus": 1, "trouble": "RuntimeError: driver is too old"}},
            f"{SHOWN}, but torch 2.13.0 (for CUDA 13.0) cannot compute on it: RuntimeError: driver is too old",
            OTHER_BUILD,
        ),
        (
            {"torch": {"version": None, "cuda": None, "gpus": 0, "trouble": "OSError: libcudart.so.12"}},
            f"{SHOWN}, but torch cannot be imported: OSError: libcudart.so.12",
            OTHER_BUILD,
        ),
        ({"torch": FATAL}, f"{SHOWN}, but torch cannot be imported: the job ended while it was tried", OTHER_BUILD),
        (
            {"driver_version": ""},
            "driver of unknown version, but torch 2.13.0+cpu",
            "Install a build of torch for the driver of that node",
        ),
        (
            {"torch": {"version": "2.13.0", "cuda": "13.0", "gpus": 1, "trouble": ""}},
            f"{SHOWN}, torch 2.13.0 (for CUDA 13.0) uses it",
            "",
        ),
    ],
    ids=["not granted", "no driver", "cpu build", "hidden", "old driver", "no import", "crash", "no version", "good"],
)
def test_the_doctor_says_what_keeps_jobs_from_their_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], found: str, remedy: str
) -> None:
    check = gpu_check(tmp_path, monkeypatch, "", FOUND | change)
    assert check.ok == (not remedy)
    assert found in check.found
    assert remedy in check.remedy


def test_another_torch_is_installed_where_jobs_take_it_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_software", lambda _cluster: [])  # none is installed here
    check = gpu_check(tmp_path, monkeypatch, "software: apptainer\n", FOUND)
    assert "in envs/core.def, make envs/core.sif again, with the pins of envs/core.txt" in check.remedy
    check = gpu_check(tmp_path, monkeypatch, "software: conda\n", FOUND)
    assert check.ok, "the probe ran in another environment than jobs will"
    assert "not asked: torch of the environment that Snakemake makes" in check.found


def gpu_check(folder: Path, monkeypatch: pytest.MonkeyPatch, description: str, found: dict[str, object]) -> Check:
    """What the doctor says of a GPU of which a probe found this, on a cluster that takes every job."""
    monkeypatch.chdir(ROOT)
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for tool in TOOLS:
        (tools / tool).write_text("#!/bin/sh\nexit 0\n")
        (tools / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setattr(doctor, "run_probe", lambda *_: Ended(dict(found), "COMPLETED"))
    path = folder / "cluster.yaml"
    path.write_text(f"{description}partitions:\n  gpu: {{gpus: 1}}\ngpu:\n  request: gpus\n")
    run = load_run(load_config([Path("config/config.yaml")]))
    (check,) = [one for one in diagnose_cluster(run, path).checks if one.about == "GPU of gpu7"]
    return check
