"""Small archives that the tests make themselves."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from medheb.manifest.dataset import SourceFile

WHEEL = "medheb_sample-1.0-py3-none-any.whl"
WHEEL_MEMBERS = {
    "medheb_sample/__init__.py": b"raise SystemExit('imported')\n",
    "medheb_sample/data/a.txt": b"first\n",
    "medheb_sample/data/b.txt": b"second\n" * 1000,
    "medheb_sample-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: medheb-sample\nVersion: 1.0\n",
    "medheb_sample-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
    b"Tag: py3-none-any\n",
    "medheb_sample-1.0.dist-info/RECORD": b"",
}


def make_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    """A deflated zip with fixed times."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return path


def tar_member(name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple:
    """One member for :func:`make_tar`."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(content) if kind == tarfile.REGTYPE else 0
    return info, content


def make_tar(path: Path, *members: tuple, form: int = tarfile.PAX_FORMAT) -> Path:
    """A gzip-compressed tar."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=form) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content) if info.size else None)
    path.write_bytes(gzip.compress(plain.getvalue(), mtime=0))
    return path


def pin(path: Path) -> SourceFile:
    """The manifest entry of a file that a test made."""
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    return SourceFile(path=path.name, bytes=len(content), sha256=sha256, digest_source="the test that made it")
