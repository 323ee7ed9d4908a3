"""The inventory: what ``build`` wrote for one source, and what is known of each file.

It lies inside the image folder and is all that later steps read of ``build``: a small JSON file with the recipe,
the status and what was refused, written last, and beside it a parquet table with one row a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, ValidationError

from medheb.core.digests import canonical_json, json_digest
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_open, write_json
from medheb.core.status import Status
from medheb.manifest.base import RelativePath, Sha256, Strict, describe_faults, read_json, validate

SCHEMA_VERSION = 2
Fact = str | int | float | bool | None
# Fact of an RGB picture without colour: its L2 digest as a grey one.
AS_GREY = "as_grey"
COLUMNS = ("path", "bytes", "sha256", "content")
BATCH_ROWS, KNOWN_TEXTS = 4096, 100_000
ALL_FIELDS = {"path", "bytes", "sha256", "content", "facts"}


class BuiltFile(Strict):
    """One file of the image folder.

    ``path`` is relative to the image folder. ``sha256`` is L1, ``content`` the L2 digest. ``facts``
    hold what index builders and readers need. Usual names: kind, case, label, split, group (patient, case or
    source picture, for splits), member (where in the source it came from), slice, window, mode, width, height, as_grey.
    """

    path: RelativePath
    bytes: int = Field(ge=0)
    sha256: Sha256
    content: str
    facts: dict[str, Fact] = Field(default_factory=dict)

    @property
    def seen(self) -> str:
        """Equal where a model sees the same: ``content``, but grey pictures are equal in modes L and RGB."""
        grey = self.facts.get(AS_GREY)
        return grey if isinstance(grey, str) else self.content


class Refusal(Strict):
    """A case, file or row of the source that could not be used.

    ``lost`` says what alone is missing where the rest of it was built: ``X-ray``.
    """

    where: str
    fault: str
    remedy: str
    lost: str | None = None


class Remark(Strict):
    """A case that was built although something about it is odd: what, and what was done."""

    where: str
    oddity: str
    done: str


class Duplicates(Strict):
    """Pictures with the same pixels from different places of the source (fact ``member``)."""

    inside: int = Field(description="places beyond the first of each group of equal pictures")
    across_splits: int = Field(description="groups of equal pictures that stand in more than one split")


class Inventory(Strict):
    """All files of one source, sorted by path, with the recipe that made them."""

    schema_version: int = SCHEMA_VERSION
    dataset: str
    images: RelativePath
    recipe: str
    recipe_version: int
    protocol: str | None = Field(default=None, description="null where the recipe makes the same under each")
    settings: dict[str, str] = Field(
        default_factory=dict,
        description="digests of recipe options and switches by name; empty where nobody noted them",
    )
    status: Status
    files: tuple[BuiltFile, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="what was skipped or is thin, in the report's words")
    refusals: tuple[Refusal, ...] = ()
    remarks: tuple[Remark, ...] = Field(default=(), description="cases that were built although odd")
    links: dict[str, str] = Field(
        default_factory=dict, description="links in the image folder to files that stay elsewhere: name, where it leads"
    )

    def of_kind(self, kind: str) -> list[BuiltFile]:
        """Files whose fact ``kind`` is ``kind``, in path order."""
        return [file for file in self.files if file.facts.get("kind") == kind]


class Header(Strict):
    """Content of ``<id>.inventory.json``: an inventory without its files."""

    schema_version: int
    dataset: str
    images: RelativePath
    recipe: str
    recipe_version: int
    protocol: str | None
    settings: dict[str, str] = Field(default_factory=dict)
    status: Status
    notes: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    remarks: tuple[Remark, ...] = ()
    links: dict[str, str] = Field(default_factory=dict)
    count: int
    files_digest: str = Field(description="of all rows of the table")
    duplicates: Duplicates


def table_path(header: Path) -> Path:
    """The parquet table beside an ``<id>.inventory.json``."""
    return header.with_suffix(".parquet")


def duplicates_of(files: Sequence[BuiltFile]) -> Duplicates:
    """Count pictures with equal pixels (L2 digests). What a recipe writes twice of one place counts once."""
    places: dict[str, set[Fact]] = {}
    splits: dict[str, set[Fact]] = {}
    for file in files:
        if file.content.startswith("pix"):
            places.setdefault(file.seen, set()).add(file.facts.get("member") or file.path)
            splits.setdefault(file.seen, set()).add(file.facts.get("split"))
    return Duplicates(
        inside=sum(len(found) - 1 for found in places.values()),
        across_splits=sum(len(found - {None}) > 1 for found in splits.values()),
    )


def write_inventory(path: Path, inventory: Inventory) -> None:
    """Write an inventory: the table, then atomically the header that vouches for it."""
    table = _table([file.model_dump() for file in inventory.files], path)
    with atomic_open(table_path(path)) as stream:
        pq.write_table(table, stream, compression="zstd")
    content = inventory.model_dump(exclude={"files"})
    content |= {
        "count": len(inventory.files),
        "files_digest": json_digest([_row(row) for row in table.to_pylist()]),
        "duplicates": duplicates_of(inventory.files).model_dump(),
    }
    write_json(path, content)


def _table(rows: Sequence[Mapping[str, Any]], where: Path) -> pa.Table:
    """Rows as columns; facts become a column each, named ``fact.<name>``.

    Raises:
        MedhebError: a fact that is text in one row and a number in another.
    """
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in COLUMNS}
    for name in sorted({name for row in rows for name in row["facts"]}):
        columns[f"fact.{name}"] = [row["facts"].get(name) for row in rows]
    types = {"path": pa.string(), "bytes": pa.int64(), "sha256": pa.string(), "content": pa.string()}
    try:
        return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise MedhebError(where, f"has a fact of several types ({error})", "Mend the recipe") from error


def read_header(path: Path) -> Header:
    """Read what an inventory says of itself, without its files.

    Raises:
        MedhebError: missing, of another version, or not an inventory.
    """
    remedy = f"Run `medheb rebuild {path.name.split('.')[0]}`, then the workflow"
    content = read_json(path, remedy)
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise MedhebError(path, f"is an inventory of version {version}; this code reads {SCHEMA_VERSION}", remedy)
    return validate(Header, content, path)


def read_inventory(path: Path) -> Inventory:
    """Read an inventory, header and table.

    Raises:
        MedhebError: missing, of another version, not an inventory, or header and table do not belong together.
    """
    header = read_header(path)
    files = list(files_of(path, header))
    content = json.loads(header.model_dump_json(exclude={"count", "files_digest", "duplicates"}))
    return validate(Inventory, content | {"files": files}, path)


def files_of(path: Path, header: Header) -> Iterator[BuiltFile]:
    """Files of an inventory one by one, for readers that need not hold them all.

    Raises:
        MedhebError: as :func:`read_inventory`; that header and table differ shows after the last file.
    """
    remedy = f"Run `medheb rebuild {header.dataset}`, then the workflow"
    table = table_path(path)
    digest = sha256(b"[")
    separator = b""
    try:
        with pq.ParquetFile(table) as opened:
            for rows in _batches(opened):
                digest.update(separator + canonical_json(rows)[1:-1])
                separator = b","
                for row in rows:
                    file = BuiltFile.model_validate(row)
                    # Every row has every field: one set for all files, as a set of its own takes 700 bytes of each.
                    object.__setattr__(file, "__pydantic_fields_set__", ALL_FIELDS)
                    yield file
    except (OSError, pa.ArrowException, KeyError) as error:
        raise MedhebError(table, f"cannot be read ({str(error).splitlines()[0]})", remedy) from error
    except ValidationError as error:
        raise describe_faults(error, table) from error
    digest.update(b"]")
    if digest.hexdigest() != header.files_digest:
        raise MedhebError(table, f"is not the table that {path.name} vouches for", remedy)


def _batches(table: pq.ParquetFile) -> Iterator[list[dict[str, Any]]]:
    """Rows in batches, in little memory: equal texts (kinds, splits, labels) are one object."""
    known: dict[str, str] = {}
    for batch in table.iter_batches(batch_size=BATCH_ROWS):
        rows = [_row(row) for row in batch.to_pylist()]
        for content in rows:
            facts = content["facts"]
            for name, value in facts.items():
                if isinstance(value, str):
                    facts[name] = known.setdefault(value, value)
        if rows:
            yield rows
        if len(known) > KNOWN_TEXTS:
            known.clear()


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as it was written. An absent fact and one without a value are the same."""
    facts = {
        name.removeprefix("fact."): value
        for name, value in row.items()
        if name.startswith("fact.") and value is not None
    }
    return {**{name: row[name] for name in COLUMNS}, "facts": facts}
