"""Snakemake killed, stopped by hand, or taken up again: no job is lost, none runs twice, nothing stale counts."""

from __future__ import annotations

import json
import signal

from cluster_bench import CODES, KNEES, Bench, submitted

RESUME = ("medheb", "resume")


def test_snakemake_killed_by_sigkill_is_taken_up_by_resume_without_a_lost_or_doubled_job(bench: Bench) -> None:
    killed, frozen = bench.start_with_one_running_and_one_waiting()
    killed.kill()
    killed.wait()
    before = len(bench.log())
    resumed = bench.start(KNEES, CODES, command=RESUME)
    bench.wait(lambda: "waiting for 1 running jobs of an earlier start" in bench.log(), "resume waits for what runs")
    assert "cancelled: 1 jobs of an earlier start (build_images Text_Data_codes_codes" in bench.log()
    assert not submitted(bench.log()[before:]), "nothing starts while a job of the dead run works on the files"
    frozen.resume()
    assert bench.finish(resumed) == 0, bench.log()[-5000:]
    assert bench.states("knees") == ["COMPLETED"], "the running job counts and is not repeated"
    assert bench.states("codes") == ["CANCELLED", "COMPLETED"]
    assert bench.run(KNEES, CODES) == 0
    assert "Nothing to be done" in bench.log()[before:]


def test_resume_with_cancel_ends_the_running_job_and_its_half_made_work_is_finished_not_trusted(bench: Bench) -> None:
    killed = bench.start(KNEES)
    bench.freeze("build", "knees", after=lambda: bench.units() > 3)
    killed.kill()
    killed.wait()
    assert not (bench.folder / KNEES).exists()
    assert bench.run("--cancel", KNEES, command=RESUME) == 0, bench.log()[-5000:]
    assert bench.states("knees") == ["CANCELLED", "COMPLETED"]
    assert json.loads((bench.folder / KNEES).read_text())["count"] >= 120 * 30
    (log,) = (bench.folder / "results/logs/build/3D_Images/Knees").glob("*.log")
    assert "units are there already" in log.read_text()


def test_ctrl_c_cancels_the_jobs_and_the_next_run_goes_on(bench: Bench) -> None:
    stopped, _ = bench.start_with_one_running_and_one_waiting()
    stopped.send_signal(signal.SIGINT)
    assert bench.finish(stopped) != 0
    bench.wait(lambda: set(bench.states()) == {"CANCELLED"}, "all jobs are cancelled", seconds=30)
    assert bench.run(KNEES, CODES, command=RESUME) == 0, bench.log()[-5000:]
    assert bench.states("knees") == ["CANCELLED", "COMPLETED"]
    assert bench.states("codes") == ["CANCELLED", "COMPLETED"]


def test_resume_refuses_while_snakemake_lives_here_or_may_live_on_another_machine(bench: Bench) -> None:
    living = bench.start(KNEES)
    frozen = bench.freeze("build", "knees")
    assert bench.run(KNEES, command=RESUME) == 1
    assert "is in use by Snakemake process" in bench.log()
    living.kill()
    living.wait()
    note = bench.folder / ".snakemake" / "medheb_driver.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"host": "login7"}))
    assert bench.run(KNEES, command=RESUME) == 1
    assert "started on login7. Call this on login7, or add --driver-is-dead" in bench.log()
    assert bench.states("knees") == ["RUNNING"]
    frozen.resume()
    assert bench.run("--driver-is-dead", KNEES, command=RESUME) == 0, bench.log()[-5000:]
    assert bench.states("knees") == ["COMPLETED"]
