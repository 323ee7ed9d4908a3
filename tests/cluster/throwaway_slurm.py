"""A real Slurm on this one machine, for tests: started, used and ended again, every process with it.

munged, slurmctld and three slurmd run as children of this process: no systemd, no cgroups, loopback only.
GPUs are copies of /dev/null, which Slurm hands out, counts and withholds as it does real ones.

    python tests/cluster/throwaway_slurm.py            # a shell with sinfo, sbatch, squeue ...
    python tests/cluster/throwaway_slurm.py COMMAND    # or one command; the cluster ends with it
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

# The jobstep plugin of Snakemake drops SLURM_CONF from its environment: only this place reaches it.
ETC = Path("/etc/slurm")
OURS = "# made by tests/cluster/throwaway_slurm.py"
LOCK = Path("/run/throwaway_slurm.lock")
PACKAGES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
DATABASE = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}
NODES = ("cpu1", "gpu1", "gpu2")
CONTROLLER_PORT, NODE_PORTS, DATABASE_PORT = 16817, 17001, 16819

SLURM = """\
ClusterName=throwaway
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={run}/munge/socket
SlurmctldPort={port}
StateSaveLocation={run}/state
SlurmdSpoolDir={run}/spool-%n
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/slurmd-%n.pid
SlurmctldLogFile={run}/log/slurmctld.log
SlurmdLogFile={run}/log/slurmd-%n.log
# loopback only
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
# pgid: linuxproc leaves parts of cancelled jobs running
ProctrackType=proctrack/pgid
TaskPlugin=task/none
# memory limits without cgroups: jobs are looked at every two seconds
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
JobAcctGatherParams=OverMemoryKill
MpiDefault=none
ReturnToService=2
# more CPUs and memory than this machine has, so that jobs really run side by side
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,bf_interval=2,sched_min_interval=0,sched_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU=500
MaxJobCount=10000
# finished jobs stay in squeue for this long; Snakemake's plugin needs three times its own interval
MinJobAge=300
KillWait=5
# a job may not outlive its wall time
OverTimeLimit=0
SlurmdTimeout=20
JobRequeue=1
{accounting}
NodeName=cpu1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node0} CPUs=8 RealMemory=32000 State=UNKNOWN
NodeName=gpu1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node1} CPUs=8 RealMemory=64000 Gres=gpu:h100:2 \
Feature=h100 State=UNKNOWN
NodeName=gpu2 NodeHostname={host} NodeAddr=127.0.0.1 Port={node2} CPUs=8 RealMemory=64000 Gres=gpu:a100:2 \
Feature=a100 State=UNKNOWN
PartitionName=cpu Nodes=cpu1 Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=gpu Nodes=gpu1,gpu2 MaxTime=12:00:00 State=UP
PartitionName=transfer Nodes=cpu1 MaxTime=2-00:00:00 State=UP
"""
GRES = """\
AutoDetect=off
NodeName=gpu1 Name=gpu Type=h100 File={run}/dev/nvidia[0-1]
NodeName=gpu2 Name=gpu Type=a100 File={run}/dev/nvidia[2-3]
"""
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={run}/munge/socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment"""
SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={run}/munge/socket
DbdAddr=127.0.0.1
DbdHost=localhost
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
DbdPort={port}
SlurmUser=root
PidFile={run}/slurmdbd.pid
LogFile={run}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=throwaway
StorageLoc=slurm_acct_db
"""


def hindrance() -> str | None:
    """Why there can be no cluster here, with what to do; None if there can."""
    if not sys.platform.startswith("linux"):
        return "Slurm runs on Linux only"
    missing = sorted({package for tool, package in PACKAGES.items() if _tool(tool) is None})
    if missing:
        return (
            f"packages are missing; on Debian and Ubuntu: apt-get install --no-install-recommends {' '.join(missing)}"
        )
    if os.geteuid() != 0:
        return "a cluster of its own needs root (device files, /etc/slurm); run the tests in a container as root"
    config = ETC / "slurm.conf"
    if config.exists() and not config.read_text().startswith(OURS):
        return f"{config} is that of a real cluster and stays as it is"
    return None


class Cluster:
    """Three nodes: cpu1 (8 CPUs), gpu1 (two h100) and gpu2 (two a100); partitions cpu, gpu and transfer.

    Args:
        folder: receives state, logs and devices; short, as sockets lie in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = socket.gethostname().split(".")[0]
        self.accounting = all(_tool(tool) for tool in DATABASE)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.others = _processes()

    def start(self) -> None:
        """Start everything and wait until all nodes are idle.

        Raises:
            RuntimeError: a daemon did not come up; the message ends with its log.
        """
        for name in ("munge", "state", "log", "dev", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir(mode=0o755, parents=True)
        for number in range(4):
            os.mknod(self.folder / "dev" / f"nvidia{number}", 0o20666, os.makedev(1, 3))
        self._munge()
        if self.accounting:
            self._database()
        ETC.mkdir(exist_ok=True)
        ports = dict(zip(("node0", "node1", "node2"), range(NODE_PORTS, NODE_PORTS + 3), strict=True))
        accounting = ACCOUNTING.format(run=self.folder, port=DATABASE_PORT) if self.accounting else ""
        self._configure(
            "slurm.conf",
            SLURM.format(host=self.host, port=CONTROLLER_PORT, accounting=accounting, run=self.folder, **ports),
        )
        self._configure("gres.conf", GRES.format(run=self.folder))
        if self.accounting:
            call("sacctmgr", "-i", "add", "cluster", "throwaway")
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        self.wait(lambda: call("sinfo", "-h", "-N", "-o", "%N %t").count(" idle") >= len(NODES), "all nodes are idle")
        if self.accounting:
            call("sacctmgr", "-i", "add", "account", "medical")
            call("sacctmgr", "-i", "add", "user", "root", "account=medical", "adminlevel=admin")

    def start_controller(self) -> None:
        """Start slurmctld; a second time it takes up the jobs that it finds in its state."""
        self._daemon("slurmctld", "slurmctld", "-D", "-i")
        self.wait(lambda: "UP" in call("scontrol", "ping"), "slurmctld answers")

    def start_node(self, node: str) -> None:
        """Start the slurmd of a node."""
        self._daemon(node, "slurmd", "-D", "-N", node)

    def stop_daemon(self, name: str, how: int = signal.SIGTERM) -> None:
        """End one daemon: `slurmctld`, a node, `slurmdbd`, `mariadbd` or `munged`."""
        process = self.daemons.pop(name)
        process.send_signal(how)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Cancel all jobs and end everything, in the reverse order.

        Raises:
            RuntimeError: a process of Slurm is left.
        """
        if "slurmctld" in self.daemons:
            call("scancel", "-u", "root", check=False)
            self.quiet(10)
        for name in list(reversed(self.daemons)):
            self.stop_daemon(name)
        for name in ("slurm.conf", "gres.conf", "slurmdbd.conf"):
            if (ETC / name).exists() and (ETC / name).read_text().startswith(OURS):
                (ETC / name).unlink()
        end = time.monotonic() + 20
        while left := _processes() - self.others:
            if time.monotonic() > end:
                raise RuntimeError(f"processes are left: {left}")
            time.sleep(0.2)

    def quiet(self, seconds: float) -> bool:
        """Wait until no job is left. False if some are."""
        end = time.monotonic() + seconds
        while call("squeue", "-h", check=False).strip():
            if time.monotonic() > end:
                return False
            time.sleep(0.2)
        return True

    def wait(self, ready: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Poll until ready.

        Raises:
            RuntimeError: it does not become ready.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if ready():
                    return
            except (OSError, RuntimeError):
                pass
            for name, process in self.daemons.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with code {process.returncode}:\n{self.logs()}")
            time.sleep(0.1)
        raise RuntimeError(f"after {seconds} s it is not so that {what}:\n{self.logs()}")

    def logs(self) -> str:
        """The last lines of each log."""
        parts = []
        for path in sorted((self.folder / "log").iterdir()):
            parts += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(parts)

    def _munge(self) -> None:
        place = self.folder / "munge"
        place.chmod(0o700)
        key = place / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        names = {"key": "key-file", "log": "log-file", "pid": "pid-file", "seed": "seed-file", "socket": "socket"}
        options = [f"--{option}={place / name}" for name, option in names.items()]
        # --force: root runs it, in a folder of its own, and not the user that packages make for it
        self._daemon("munged", "munged", "--foreground", "--force", "--num-threads=4", *options)
        self.wait(lambda: call("munge", "-n", "-S", str(place / "socket")).startswith("MUNGE:"), "munge answers")
        place.chmod(0o755)

    def _database(self) -> None:
        data = self.folder / "mysql"
        data.mkdir(mode=0o700)
        plain = ("--no-defaults", f"--datadir={data}", "--user=root")
        call("mariadb-install-db", *plain, "--skip-test-db", "--auth-root-authentication-method=socket")
        self._daemon(
            "mariadbd", "mariadbd", *plain, f"--socket={data}/socket", f"--pid-file={data}/pid", "--skip-networking",
            "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900",
        )  # fmt: skip
        client = ("mariadb", "--no-defaults", "-S", f"{data}/socket", "-e")
        self.wait(lambda: bool(call(*client, "select 1")), "the database answers")
        call(
            *client,
            "create database slurm_acct_db; create user slurm@localhost identified by 'throwaway'; "
            "grant all on slurm_acct_db.* to slurm@localhost;",
        )
        ETC.mkdir(exist_ok=True)
        self._configure("slurmdbd.conf", SLURMDBD.format(run=self.folder, port=DATABASE_PORT))
        (ETC / "slurmdbd.conf").chmod(0o600)
        self._daemon("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=f"{data}/socket")

        def listens() -> bool:
            with socket.create_connection(("127.0.0.1", DATABASE_PORT), timeout=1):
                return True

        self.wait(listens, "slurmdbd listens")

    def _configure(self, name: str, content: str) -> None:
        (ETC / name).write_text(f"{OURS}\n{content}")

    def _daemon(self, name: str, tool: str, *options: str, **extra: str) -> None:
        path = _tool(tool)
        assert path is not None, tool
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                [path, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                # not in the terminal's group: Ctrl-C ends the test, and the test ends the daemons
                start_new_session=True, preexec_fn=_end_with_parent, cwd=self.folder,
                env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", **extra},
            )  # fmt: skip


def call(*command: str, check: bool = True) -> str:
    """Output of a command of Slurm."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if check and result.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {result.returncode}: {result.stdout}{result.stderr}")
    return result.stdout


@contextmanager
def running() -> Iterator[Cluster]:
    """A cluster for the time of the block; another process that wants one waits."""
    with ExitStack() as stack:
        lock = stack.enter_context(LOCK.open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        # `timeout` and CI end a process by SIGTERM, which by itself would leave jobs behind
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _interrupt))
        # /run and /tmp are local; paths of sockets must be short
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        cluster = Cluster(folder)
        stack.callback(cluster.stop)
        cluster.start()
        yield cluster


def _processes() -> set[psutil.Process]:
    return {process for process in psutil.process_iter(["name"]) if process.info["name"].startswith("slurm")}


def _tool(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """Linux ends the daemon if this process dies without ending it."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def main() -> int:
    """Run a command, or a shell, with a cluster."""
    if reason := hindrance():
        print(reason, file=sys.stderr)
        return 1
    with running():
        print(call("sinfo", "-N", "-o", "%N %t %c CPUs %m MB %G %P"), flush=True)
        return subprocess.run(sys.argv[1:] or [os.environ.get("SHELL", "/bin/sh")], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
