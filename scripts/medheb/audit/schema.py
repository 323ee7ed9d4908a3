"""Typed content of the audit folder: ``<source>/digests.json`` and ``roots.json``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from medheb.audit.tolerance import PATTERN
from medheb.audit.verdicts import Level
from medheb.core.digests import merkle_root
from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json
from medheb.core.layout import Layout
from medheb.manifest.base import RelativePath, Sha256, Strict, validate

SCHEMA_VERSION = 1
AGAIN = "Record it again: snakemake audit"
NOT_BUILT = "not-built"  # stands where a digest would, so that a root also says what is absent
WITHHELD = "withheld: this source's paths, texts and reasons stay on the machine that built it"

# A score has no L1: its file holds seconds, and the parquet beside it raw cosines.
SECTION_LEVELS: dict[str, tuple[Level, ...]] = {
    "index": ("L1", "L2"),
    "scores": ("L2",),
    "graded": ("L2",),
    "embeddings": ("L1", "L2"),
}

State = Literal["built", "not-built"]
# Without it nobody could tell, of a source that shows roots alone, whether only its radiographs differ.
EXACT = Field(default=None, description="L2 root over what declares no tolerance; null where nothing declares one")
RecordT = TypeVar("RecordT", bound=Strict)


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class FileDigests:
    """Digests of one built file: L1 of its bytes, L2 of its content, L3 only where a tolerance is declared.

    Slots, since a source may have hundreds of thousands of files.
    """

    bytes: Annotated[int, Field(ge=0)]
    L1: Sha256
    L2: Annotated[str, Field(pattern=r"^[a-z]+[0-9]+:[0-9a-f]{64}$")]
    L3: Annotated[str | None, Field(pattern=PATTERN)] = None


class SourceRecord(Strict):
    """``digests.json`` of one source. Paths of ``files`` start at the benchmark folder.

    ``archives`` are the L0 digests: what the manifest pins and what fetch really saw. Where ``withheld``,
    both mappings are empty and only counts and roots say what there is.
    """

    schema_version: int = SCHEMA_VERSION
    dataset: str
    state: State
    reason: str = ""
    remedy: str = ""
    withheld: bool
    images: str = Field(default="", description="image folder; empty where withheld")
    recipe: str
    recipe_version: int
    settings: dict[str, str] = Field(
        default_factory=dict, description="digests of recipe options and switches by name, as the build noted them"
    )
    file_count: int = Field(ge=0)
    archive_count: int = Field(ge=0)
    roots: dict[Level, Sha256]
    exact: Sha256 | None = EXACT
    archives: dict[str, str] = Field(default_factory=dict)
    files: dict[RelativePath, FileDigests] = Field(default_factory=dict)


class SourceRoots(Strict):
    """What ``roots.json`` says of one source."""

    state: State
    reason: str = ""
    remedy: str = ""
    file_count: int = Field(ge=0)
    roots: dict[Level, Sha256]
    exact: Sha256 | None = EXACT


class Entry(Strict):
    """One task JSON, score, graded score or embedding receipt. ``count`` is the number of records, queries or keys."""

    state: State
    reason: str = ""
    count: int = Field(default=0, ge=0)
    digests: dict[Level, str] = Field(default_factory=dict)


class Section(Strict):
    """All entries of one kind by name, and a Merkle root over them for each level that they have."""

    entries: dict[str, Entry]
    roots: dict[Level, Sha256]


def _nothing() -> Section:
    return Section(entries={}, roots={"L2": merkle_root({})})


class Roots(Strict):
    """``roots.json``: one root a source and level, one a section and level, one overall a level."""

    schema_version: int = SCHEMA_VERSION
    sources: dict[str, SourceRoots]
    index: Section
    scores: Section
    graded: Section = Field(default_factory=_nothing)
    embeddings: Section
    overall: dict[Level, Sha256]

    @property
    def sections(self) -> dict[str, Section]:
        """Sections by name."""
        return {name: getattr(self, name) for name in SECTION_LEVELS}


def source_roots(archives: Mapping[str, str], files: Mapping[str, FileDigests]) -> dict[Level, str]:
    """Merkle roots of one source over its archives (L0), file bytes (L1), contents (L2), declared tolerances (L3)."""
    tolerant = {path: digests.L3 for path, digests in files.items() if digests.L3 is not None}
    roots: dict[Level, str] = {
        "L0": merkle_root(archives),
        "L1": merkle_root({path: digests.L1 for path, digests in files.items()}),
        "L2": merkle_root({path: digests.L2 for path, digests in files.items()}),
    }
    return roots | ({"L3": merkle_root(tolerant)} if tolerant else {})


def exact_root(files: Mapping[str, FileDigests]) -> str | None:
    """L2 root over the files without a declared tolerance; None where no file declares one."""
    if all(digests.L3 is None for digests in files.values()):
        return None
    return merkle_root({path: digests.L2 for path, digests in files.items() if digests.L3 is None})


def section_of(entries: Mapping[str, Entry], levels: tuple[Level, ...]) -> Section:
    """A section with its roots; an entry that was not built counts as such."""
    roots: dict[Level, str] = {
        level: merkle_root({name: entry.digests.get(level, NOT_BUILT) for name, entry in entries.items()})
        for level in levels
    }
    return Section(entries=dict(entries), roots=roots)


def overall_roots(sources: Mapping[str, SourceRoots], sections: Mapping[str, Section]) -> dict[Level, str]:
    """One root a level over all sources and all sections that have this level. Nothing graded is no part."""
    levels: tuple[Level, ...] = ("L0", "L1", "L2")
    overall: dict[Level, str] = {}
    for level in levels:
        parts = {f"source/{name}": source.roots.get(level, NOT_BUILT) for name, source in sources.items()}
        parts |= {
            name: section.roots[level]
            for name, section in sections.items()
            if level in section.roots and (name != "graded" or section.entries)
        }
        overall[level] = merkle_root(parts)
    return overall


def record_path(layout: Layout, dataset: str) -> Path:
    """``digests.json`` of one source."""
    return layout.audit / dataset / "digests.json"


def private_record_path(layout: Layout, dataset: str) -> Path:
    """Full digests of a withheld source that declares a tolerance. They never leave the machine (docs/audit.md)."""
    return private_folder(layout.audit) / dataset / "digests.json"


def private_folder(audit: Path) -> Path:
    """Beside an audit folder, what must not leave the machine."""
    return audit.with_name("audit-private")


def sums_path(layout: Layout, dataset: str) -> Path:
    """``SHA256SUMS`` of one source; absent if it is not built or its names are withheld."""
    return layout.audit / dataset / "SHA256SUMS"


def roots_path(layout: Layout) -> Path:
    """``roots.json`` of the run."""
    return layout.audit / "roots.json"


def index_sums_path(layout: Layout) -> Path:
    """``SHA256SUMS-index``: the task JSONs of sources that may be shown."""
    return layout.audit / "SHA256SUMS-index"


def environment_path(layout: Layout) -> Path:
    """``environment.json``: what the digests were made with."""
    return layout.audit / "environment.json"


def read_source_record(path: Path) -> SourceRecord:
    """Read ``digests.json``.

    Raises:
        MedhebError: missing, not JSON, a wrong value, or another schema version.
    """
    return read_part(path, SourceRecord)


def read_roots(path: Path) -> Roots:
    """Read ``roots.json``.

    Raises:
        MedhebError: missing, not JSON, a wrong value, or another schema version.
    """
    return read_part(path, Roots)


def read_part(path: Path, model: type[RecordT]) -> RecordT:
    """Read a JSON file of the audit folder.

    Raises:
        MedhebError: missing, not JSON, a wrong value, or another schema version.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise MedhebError(path, "is missing", AGAIN) from None
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", AGAIN) from error
    with suppress(ValidationError):
        part = model.model_validate_json(text)
        if "schema_version" in part.model_fields_set and getattr(part, "schema_version", None) == SCHEMA_VERSION:
            return part
    # Something is wrong with it: what, the slower way tells in words.
    try:
        content: Any = parse_json(text)
    except ValueError as error:
        raise MedhebError(path, "is not JSON", AGAIN) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise MedhebError(path, f"has schema version {version!r}", f"Allowed: {SCHEMA_VERSION}. {AGAIN}")
    return validate(model, content, path)
