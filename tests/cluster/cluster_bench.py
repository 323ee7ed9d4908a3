"""A benchmark for the cluster: the tiny one, and two sources whose jobs last long enough to disturb them.

``knees`` is a 3D source of many cases, ``terms`` a long code list. A test stops a job's process where it wants
(SIGSTOP), does its worst, and lets it go on: nothing is left to timing.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import tiny_benchmark
import yaml
from throwaway_slurm import call

CASES, TERMS = 120, 1500
WHEEL = "clusterdata-1.0-py3-none-any.whl"
KNEES = "results/MedHEB/3D_Images/Knees/knees.inventory.json"
CODES = "results/MedHEB/Text_Data/codes/codes.inventory.json"
PERSON = "results/MedHEB/3D_Images/Person_X/person_x.inventory.json"
TERMS_RECEIPT = "results/embeddings/random/terms.json"
# On a real cluster these take minutes; nothing else of the profile is changed.
QUICK = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10")


@dataclass(frozen=True)
class SlurmJob:
    """One job as Slurm saw it. ``work`` is its rule and wildcards, ``memory`` what was asked for in MB."""

    number: int
    state: str
    work: str
    node: str
    partition: str
    memory: int


class Bench:
    """A workspace in which Snakemake is run against the cluster."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.environment = environment or tiny_benchmark.environment(folder)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, *arguments: str, command: tuple[str, ...] = ("snakemake", "--profile", "slurm")
    ) -> subprocess.Popen[bytes]:
        """Start Snakemake, or ``("medheb", ...)``, with its output in ``run.log``."""
        with (self.folder / "run.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command, *(QUICK if command != ("medheb",) else ()), *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # a shell's background jobs ignore Ctrl-C, and pytest may be one
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
            )
        self.started.append(process)
        return process

    def run(
        self, *arguments: str, command: tuple[str, ...] = ("snakemake", "--profile", "slurm"), seconds: float = 240
    ) -> int:
        """Run to the end. Returns the exit code."""
        return self.finish(self.start(*arguments, command=command), seconds)

    def finish(self, process: subprocess.Popen[bytes], seconds: float = 240) -> int:
        """Wait for the end of a run. Returns its exit code."""
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.log()[-5000:]}\n{self.queue()}") from None

    def log(self) -> str:
        """All output of all runs."""
        return (self.folder / "run.log").read_text(errors="replace")

    def queue(self) -> str:
        """What Slurm knows of its jobs."""
        return call("squeue", "--states=all", "-o", "%i %T %k %N %r", check=False)

    def jobs(self, work: str = "") -> list[SlurmJob]:
        """All jobs of this workspace whose work contains a text, in the order of submission."""
        found = []
        for line in call("squeue", "--states=all", "-h", "-o", "%i|%T|%k|%N|%P|%m|%Z").splitlines():
            number, state, comment, node, partition, memory, place = line.split("|", 6)
            if Path(place) == self.folder and work in comment:
                size = {"M": 1, "G": 1024}[memory[-1]] * float(memory[:-1])
                found.append(SlurmJob(int(number), state, comment, node, partition, round(size)))
        return sorted(found, key=lambda job: job.number)

    def asked_gpus(self, job: SlurmJob) -> str:
        """GPUs that a job asked for, as Slurm writes them; empty for none."""
        found = re.search(r"TresPer(?:Job|Node)=(\S+)", call("scontrol", "-o", "show", "job", str(job.number)))
        return found[1] if found else ""

    def states(self, work: str = "") -> list[str]:
        """States of the jobs, in the order of submission."""
        return [job.state for job in self.jobs(work)]

    def wait(self, ready: Callable[[], object], what: str, seconds: float = 90) -> None:
        """Poll until something is so."""
        end = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < end, f"waited {seconds} s for: {what}\n{self.log()[-5000:]}\n{self.queue()}"
            for process in self.started:
                assert process.poll() in (None, 0, 1, -9), f"{what}: Snakemake ended\n{self.log()[-5000:]}"
            time.sleep(0.02)

    def processes(self, *words: str) -> list[psutil.Process]:
        """Processes of ``medheb`` in this workspace whose command line has these words."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if line[1:3] == ["-m", "medheb"] and all(word in line for word in words):
                try:
                    if Path(process.cwd()) == self.folder:
                        found.append(process)
                except psutil.Error:
                    continue
        return found

    def freeze(self, *words: str, after: Callable[[], bool] = lambda: True) -> psutil.Process:
        """Stop the process of a running job, once something has happened; it stays in the queue as running."""
        held: list[psutil.Process] = []

        def caught() -> bool:
            for process in self.processes(*words):
                if after():
                    process.suspend()
                    held.append(process)
            return bool(held)

        self.wait(caught, f"a process with {words}")
        assert held[0].is_running()
        return held[0]

    def start_with_one_running_and_one_waiting(self) -> tuple[subprocess.Popen[bytes], psutil.Process]:
        """Start a run whose ``knees`` job runs, stopped half-way, and whose ``codes`` job waits in the queue."""
        blocker = call("sbatch", "--parsable", "-c", "8", "-o", "/dev/null", "--wrap", "sleep 600").strip()
        run = self.start(KNEES, CODES)
        self.wait(lambda: self.states() == ["PENDING", "PENDING"], "both jobs in the queue")
        (codes,) = self.jobs("codes")
        call("scontrol", "hold", str(codes.number))
        call("scancel", blocker)
        return run, self.freeze("build", "knees", after=lambda: self.units() > 3)

    def units(self) -> int:
        """Cases of ``knees`` that are built so far, in the staging folder."""
        return len(list((self.folder / "results/MedHEB/3D_Images").glob(".Knees*/.units/*.json")))

    def vectors(self) -> int:
        """Files that the store of the random model holds."""
        store = self.folder / "results/embeddings/random/store"
        return (
            sum(1 for path in store.rglob("*") if path.is_file() and not path.name.startswith("."))
            if store.is_dir()
            else 0
        )

    def end(self) -> None:
        """End whatever still runs."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        for process in self.processes():
            process.kill()


def make_bench(folder: Path) -> Path:
    """The tiny benchmark with ``knees`` and ``terms``."""
    tiny_benchmark.make_workspace(folder)
    (folder / "slurm").unlink()  # a copy: `medheb cluster apply` writes into it
    generated = shutil.ignore_patterns("config.v9+.yaml", "partitions.yaml")
    shutil.copytree(tiny_benchmark.ROOT / "slurm", folder / "slurm", ignore=generated)
    shutil.copytree(tiny_benchmark.ROOT / "config" / "clusters", folder / "config" / "clusters")
    wheel = _wheel()
    (folder / "shelf" / WHEEL).write_bytes(wheel)
    labels = {"healthy": "healthy", "other": "other", "acl": None, "meniscus": None, "both": None}
    options = {"folders": {"valid": "valid"}, "splits": {"valid": "test"}, "labels": labels}
    sets = folder / "manifests" / "tiny"
    for source in (
        _manifest(
            "knees", "3d", "*valid/*", "3D_Images/Knees", {"name": "mrnet", "version": 1, "options": options}, wheel
        ),
        _manifest("terms", "text", "*terms.xml", "Text_Data/terms", {"name": "icd10cm", "version": 1}, wheel),
    ):
        (sets / "datasets" / f"{source['id']}.yaml").write_text(yaml.safe_dump(source))
    tasks = sets / "tasks.tsv"
    rows = tasks.read_text().splitlines()
    codes = next(row for row in rows if row.startswith("Codes_t2t\t"))
    terms = codes.replace("Codes_t2t", "Terms_t2t").replace("Text_Task/Codes/", "Text_Task/Terms/")
    tasks.write_text("\n".join([*rows, terms.replace("\tcodes\t", "\tterms\t")]) + "\n")
    change(folder, embed={"shard_inputs": 8})
    return folder


def change(folder: Path, **settings: object) -> None:
    """Change the configuration of a workspace."""
    config = folder / "config" / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | settings))


def scores(folder: Path) -> dict[str, object]:
    """All metrics below a results folder, without times."""
    found = {}
    for path in sorted((folder / "scores").rglob("*.json")):
        content = json.loads(path.read_text())
        found[str(path.relative_to(folder))] = [content["status"]["state"], content["queries"], content["metrics"]]
    return found


def submitted(log: str) -> list[int]:
    """Slurm's ids of all jobs that Snakemake says it submitted."""
    return [int(number) for number in re.findall(r"submitted with SLURM jobid (\d+)", log)]


def _manifest(identifier: str, form: str, include: str, images: str, recipe: dict, wheel: bytes) -> dict:
    entry = tiny_benchmark.manifest(identifier, form, include, images, recipe, wheel)
    entry["host"]["name"] = "clusterdata"
    entry["files"][0] |= {"path": WHEEL, "sha256": hashlib.sha256(wheel).hexdigest()}
    return entry


def _wheel() -> bytes:
    rng = np.random.default_rng(5)
    diagnoses = "".join(
        f"<diag><name>A{code:04d}</name><desc>Title number {code}</desc>"
        f"<inclusionTerm><note>Term number {code}</note></inclusionTerm></diag>"
        for code in range(TERMS)
    )
    terms = (
        '<?xml version="1.0" encoding="utf-8"?><ICD10CM.tabular><chapter><name>1</name><desc>Made up</desc>'
        f'<section id="A"><desc>All</desc>{diagnoses}</section></chapter></ICD10CM.tabular>'
    )
    members = {"clusterdata/terms.xml": terms.encode()}
    for case in range(CASES):
        for plane in ("axial", "coronal", "sagittal"):
            buffer = io.BytesIO()
            np.save(buffer, rng.integers(0, 255, (10, 64, 64), dtype=np.uint8))
            members[f"clusterdata/valid/{plane}/{case:04d}.npy"] = buffer.getvalue()
    info = "clusterdata-1.0.dist-info"
    members[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: clusterdata\nVersion: 1.0\n"
    members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in members).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()
