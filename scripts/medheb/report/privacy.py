"""What of a message or note may be shown. Everything that the report quotes from disk passes here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from medheb.core.layout import Layout
from medheb.core.log import scrub
from medheb.manifest.dataset import Dataset

WITHHELD = "[withheld]"
URL = re.compile(r"https?://[^\s'\"<>)\],;]+")
# In the order in which they are applied to the words of a source whose content must not be shown.
QUOTED = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|`[^`\n]*`|\u201c[^\u201d\n]*\u201d")
PATH = re.compile(
    r"[^\s'\"(),;]*[/\\][^\s'\"(),;]*|\S+\.(?:png|jpe?g|tiff?|dcm|nii|gz|nrrd|mha|json|csv|tsv|txt|xml)\b"
)
LONG_NUMBER = re.compile(r"\w*\d{5,}\w*")


def public_text(text: str, layout: Layout, sources: Iterable[Dataset]) -> str:
    """``text`` without secrets and without the folders of this machine.

    If one of ``sources`` does not allow its content to be shown, quoted parts, paths, file names and long
    numbers (which may be a patient's text or identifier) are withheld too; official links stay.
    """
    known = list(sources)
    shown = _without_roots(scrub(text), layout)
    if all(source.show_content for source in known):
        return shown
    official = {link for source in known for link in (*source.links, source.licence.url)}
    parts: list[str] = []
    end = 0
    for match in URL.finditer(shown):
        parts.append(_withhold(shown[end : match.start()]))
        parts.append(match.group() if match.group().rstrip(".") in official else WITHHELD)
        end = match.end()
    parts.append(_withhold(shown[end:]))
    return "".join(parts)


def safe_link(url: str) -> str | None:
    """``url`` if a page may link to it (http or https), else None."""
    return url if re.fullmatch(r"https?://[^\s\"'<>]+", url) else None


def _withhold(text: str) -> str:
    for pattern in (QUOTED, PATH, LONG_NUMBER):
        text = pattern.sub(WITHHELD, text)
    return text


def _without_roots(text: str, layout: Layout) -> str:
    """Absolute paths below the run's folders start at the folder's own name, so that no user name is shown."""
    roots = {str(root.resolve()): root.name for root in (layout.sources, layout.benchmark, layout.results)}
    roots[str(Path.home())] = "~"
    for root, name in sorted(roots.items(), key=lambda item: -len(item[0])):
        if root != "/":
            text = text.replace(root + "/", name + "/")
    return text
