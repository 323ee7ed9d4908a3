"""Makes the toy model importable, here and in spawned workers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
