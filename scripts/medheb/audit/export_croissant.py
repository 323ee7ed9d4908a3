"""Croissant description of a built source that may be passed on: licence, terms, archives, files and digests."""

from __future__ import annotations

import mimetypes
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

from medheb.audit.export_crate import recorded_time
from medheb.audit.schema import SourceRecord, read_source_record, record_path, sums_path
from medheb.core.digests import PICTURE_SUFFIXES, sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "excludes": "cr:excludes",
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def export_croissant(run: Run, dataset: str, out: Path) -> Path:
    """Write ``<out>/<dataset>.croissant.json``; paths in it start at the benchmark folder.

    Raises:
        MedhebError: the source may not be passed on, is not part of the run, or is not built and recorded.
    """
    manifest, record = shareable(run, dataset)
    path = out / f"{dataset}.croissant.json"
    write_json(path, _describe(run, manifest, record))
    return path


def shareable(run: Run, dataset: str) -> tuple[Dataset, SourceRecord]:
    """Manifest and record of a source that may be passed on.

    Raises:
        MedhebError: it may not, is not part of the run, or is not built and recorded.
    """
    manifest = run.datasets.get(dataset)
    if manifest is None:
        raise MedhebError(f"source '{dataset}'", "is not part of this run", f"Allowed: {', '.join(run.datasets)}")
    if not manifest.redistribution or not manifest.show_content:
        raise MedhebError(
            f"source '{dataset}'",
            "may not be passed on under its terms",
            f"Name the official page instead: {manifest.links[0]}",
        )
    record = read_source_record(record_path(run.layout, dataset))
    if record.state != "built":
        raise MedhebError(f"source '{dataset}'", f"is not built: {record.reason}", record.remedy)
    return manifest, record


def _describe(run: Run, manifest: Dataset, record: SourceRecord) -> dict[str, Any]:
    sums = sums_path(run.layout, manifest.id)
    digests = "; ".join(f"{level} {root}" for level, root in sorted(record.roots.items()))
    made = f"{record.file_count} files made by recipe {record.recipe}, version {record.recipe_version}"
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest.id,
        "alternateName": manifest.title,
        "description": f"{manifest.title}, rebuilt for the benchmark MedHEB: {made}. Merkle roots: {digests}.",
        "license": _licence(manifest),
        "usageInfo": manifest.licence.url,
        "url": manifest.links[0],
        "sameAs": list(manifest.links),
        "citeAs": manifest.citation,
        "creator": {"@type": "sc:Organization", "name": f"The authors of {manifest.title}", "url": manifest.links[0]},
        "publisher": {"@type": "sc:Organization", "name": "MedHEB workflow, one run of it"},
        "datePublished": recorded_time(record_path(run.layout, manifest.id)),
        "version": f"{record.recipe_version}.0.0",
        "isLiveDataset": False,
        "keywords": [*manifest.modality, *manifest.anatomy],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": "SHA256SUMS",
                "name": "SHA256SUMS",
                "description": "sha256 of every file, as coreutils writes it",
                "contentUrl": "SHA256SUMS",
                "encodingFormat": "text/plain",
                "sha256": sha256_bytes(sums.read_bytes()),
            },
            *_archives(manifest, record),
            *_file_sets(manifest, record),
        ],
        "recordSet": _record_sets(record),
    }


def _licence(manifest: Dataset) -> str:
    spdx = manifest.licence.spdx
    return f"https://spdx.org/licenses/{spdx}" if spdx else manifest.licence.url


def _archives(manifest: Dataset, record: SourceRecord) -> list[dict[str, Any]]:
    """Upstream files whose digest is known: Croissant wants one for each."""
    urls = {file.path: file.url or manifest.links[0] for file in manifest.files}
    return [
        {
            "@type": "cr:FileObject",
            "@id": f"upstream/{path}",
            "name": path,
            "description": "upstream archive that the files were made from (level L0)",
            "contentUrl": urls.get(path, manifest.links[0]),
            "encodingFormat": mimetypes.guess_type(path)[0] or "application/octet-stream",
            "sha256": digest,
        }
        for path, digest in sorted(record.archives.items())
        if len(digest) == 64
    ]


def _suffixes(record: SourceRecord) -> list[str]:
    return sorted(Counter(PurePosixPath(path).suffix for path in record.files))


def _file_sets(manifest: Dataset, record: SourceRecord) -> list[dict[str, Any]]:
    return [
        {
            "@type": "cr:FileSet",
            "@id": f"files{suffix}",
            "name": f"files{suffix}",
            "description": f"Built files with suffix '{suffix}'",
            "encodingFormat": mimetypes.guess_type(f"a{suffix}")[0] or "application/octet-stream",
            "includes": f"{manifest.images}/**/*{suffix}",
        }
        for suffix in _suffixes(record)
    ]


def _record_sets(record: SourceRecord) -> list[dict[str, Any]]:
    """One record a picture: its path and its pixels."""
    return [
        {
            "@type": "cr:RecordSet",
            "@id": f"pictures{suffix}",
            "name": f"pictures{suffix}",
            "field": [
                {
                    "@type": "cr:Field",
                    "@id": f"pictures{suffix}/{name}",
                    "name": name,
                    "description": words,
                    "dataType": kind,
                    "source": {"fileSet": {"@id": f"files{suffix}"}, "extract": {"fileProperty": wanted}},
                }
                for name, words, kind, wanted in (
                    ("path", "path of the picture", "sc:Text", "fullpath"),
                    ("image", "the picture", "sc:ImageObject", "content"),
                )
            ],
        }
        for suffix in _suffixes(record)
        if suffix.lower() in PICTURE_SUFFIXES
    ]
