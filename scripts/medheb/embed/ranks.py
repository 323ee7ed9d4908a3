"""Several GPUs of one job: each rank embeds its part of the batches, rank 0 writes the receipt.

Ranks are started by torchrun (``medheb embed`` does that itself where it sees several GPUs). They only ever exchange a
few bytes, over gloo, so the same code runs on CPUs.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from medheb.core.errors import MedhebError

PATIENCE = datetime.timedelta(days=30)  # ranks wait for the slowest, however long that takes


@dataclass(frozen=True)
class Ranks:
    """Place of this process among those of its job."""

    rank: int = 0
    size: int = 1
    local: int = 0

    @classmethod
    def from_environment(cls) -> Ranks:
        """As torchrun or accelerate set it; a lone process without.

        Raises:
            MedhebError: ranks without an address to meet at.
        """
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        if "MASTER_ADDR" not in os.environ:
            raise MedhebError("WORLD_SIZE", f"is {size}, but MASTER_ADDR is not set", "Start the ranks with torchrun")
        return cls(int(os.environ["RANK"]), size, int(os.environ.get("LOCAL_RANK", "0")))

    @property
    def first(self) -> bool:
        """True for the rank that repairs the store and writes the receipt."""
        return self.rank == 0

    def gather(self, content: Any) -> list[Any]:
        """What every rank has to say, as JSON, in the order of ranks."""
        if self.size == 1:
            return [content]
        import torch
        import torch.distributed as dist

        if not dist.is_initialized():
            dist.init_process_group("gloo", timeout=PATIENCE)
        mine = torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(mine)]))
        longest = max(int(length) for length in lengths)
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(mine)] = mine
        rows = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(rows, padded)
        return [json.loads(row[: int(length)].numpy().tobytes()) for row, length in zip(rows, lengths, strict=True)]


def start_ranks(gpus: int) -> None:
    """Replace this process by torchrun with one rank a GPU; the ranks run the same command.

    Does nothing in a process that is a rank already, or with fewer than two GPUs.
    """
    if gpus < 2 or "WORLD_SIZE" in os.environ:
        return
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(gpus), "-m", "medheb"]
    os.execv(sys.executable, [sys.executable, *torchrun, *sys.argv[1:]])  # noqa: S606 - no shell
