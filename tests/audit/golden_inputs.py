"""Expected roots of every recipe over inputs that the tests make: ``python tests/audit/golden_inputs.py [--update]``.

Prints what changed and why it may; ``--reason TEXT`` where nothing recorded explains a change.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for room in ("build_2d", "build_3d"):
    if str(ROOT / "tests" / room) not in sys.path:
        sys.path.append(str(ROOT / "tests" / room))

import make_all  # noqa: E402
import make_stacks  # noqa: E402
import make_volumes  # noqa: E402

from medheb.audit.expected import Item, changes, expected_path, grid_mean, read_expected, update  # noqa: E402
from medheb.audit.tolerance import grid_digest  # noqa: E402
from medheb.build.inventory import Inventory  # noqa: E402
from medheb.core.digests import json_digest, merkle_root, sha256_file  # noqa: E402
from medheb.core.errors import MedhebError  # noqa: E402
from medheb.manifest.load import load_dataset  # noqa: E402

PATH = expected_path("inputs", ROOT)
VOLUMES = (make_volumes, make_stacks)


def found(folder: Path) -> dict[str, Item]:
    """Build every source that has a maker, under each protocol that its recipe follows."""
    items: dict[str, Item] = {}
    for name, lay in make_all.LAYERS.items():
        files = folder / "in" / name
        lay(files, 1)
        for protocol in make_all.protocols_of(name):
            out = folder / protocol / name
            inventory = make_all.make(name, files, out, protocol)
            items[f"{name} {protocol}"] = _item(name, inventory, out, make_all.maker_of(name))
    for maker in VOLUMES:
        for name, lay_volumes in maker.LAYS.items():
            files = folder / "in" / name
            lay_volumes(files)
            for protocol in make_stacks.PROTOCOLS:
                inventory = make_volumes.build(name, files, folder / protocol, protocol)
                items[f"{name} {protocol}"] = _item(name, inventory, folder / protocol, Path(str(maker.__file__)))
    return items


def _item(name: str, inventory: Inventory, out: Path, maker: Path) -> Item:
    recipe = load_dataset(ROOT / "manifests" / "datasets" / f"{name}.yaml").recipe
    drawn = {file.path: file for file in inventory.files if "projector" in file.facts}
    grids = {path: grid_digest((out / inventory.images / path).read_bytes()) for path in drawn}
    return Item(
        L2=merkle_root({file.path: file.content for file in inventory.files if file.path not in drawn}),
        tolerant={path: grid_mean(grid) for path, grid in grids.items() if grid},
        count=len(inventory.files),
        inputs=sha256_file(maker),
        made=f"{recipe.name} {recipe.version}",
        settings=json_digest(recipe.options)[:16],
    )


def main() -> int:
    """Compare or update; 1 if roots differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--reason", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        items = found(Path(folder))
    try:
        if options.update:
            listed = update(PATH, items, {}, options.reason)
        else:
            listed = changes(read_expected(PATH).items, items, {})
    except MedhebError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for change in listed:
        print(f"{change.verdict:12}  {change.name} {change.what}. {change.why}")
    print(f"{len(items)} inputs, {len(listed)} changes")
    return int(bool(listed) and not options.update)


if __name__ == "__main__":
    sys.exit(main())
