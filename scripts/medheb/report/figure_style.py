"""One look for all figures: colours that serve light, dark and print, tips on marks, SVG as text."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from medheb.manifest.model import Model

# Stand-ins that become the page's own colours, so that one SVG serves light, dark and print.
INK, MUTED, LINE, PAPER = "#010203", "#040506", "#070809", "#0a0b0c"
PAGE_COLOURS = {
    INK: "currentColor",
    MUTED: "var(--muted, #59636e)",
    LINE: "var(--line, #d5dae0)",
    PAPER: "var(--paper, #ffffff)",
}
# Okabe and Ito's colours without black and yellow; shapes repeat the distinction for print.
# The page may name lighter ones for a dark screen.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SHAPES = ("o", "s", "D", "^", "v", "P", "X")
PAGE_COLOURS |= {colour: f"var(--series-{place}, {colour})" for place, colour in enumerate(COLOURS, start=1)}
PRINT_COLOURS = {INK: "#111820", MUTED: "#59636e", LINE: "#d5dae0", PAPER: "#ffffff"}
COLOUR_PROPERTIES = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")
PNG_DPI = 200
Rgb = tuple[float, float, float]
CANARY_SHAPES = ("x", "+", "1", "2")
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Drawn:
    """A figure thrice: ``page`` in the page's colours, ``document``, an SVG for print, and ``picture``, a PNG."""

    name: str
    title: str
    page: str
    document: str
    picture: bytes


class Canvas:
    """A figure being drawn. Marks carry a tip, and the model they belong to, so that the page can single one out."""

    def __init__(self, name: str, width: float, height: float) -> None:
        self.name = name
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height))
        self._tips: list[tuple[str, str]] = []

    def axes(self, left: float, bottom: float, right: float, top: float) -> Axes:
        """Axes with these margins in inches."""
        width, height = self.width, self.height
        return self.figure.add_axes(
            (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
        )

    def mark(self, artist: Artist, tip: str, model: str = "") -> None:
        """Give a mark its tip and its model."""
        artist.set_gid(f"mark-{len(self._tips)}")
        self._tips.append((model, tip))

    def legend(self, entries: Sequence[tuple[Line2D, str]], columns: int) -> None:
        """A legend at the top left; each entry is (handle, model id or nothing)."""
        made = self.figure.legend(
            handles=[handle for handle, _ in entries],
            loc="upper left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            handlelength=1.8,
            columnspacing=1.6,
        )
        for handle, text, (entry, model) in zip(made.legend_handles, made.get_texts(), entries, strict=True):
            if model and handle is not None:
                self.mark(handle, str(entry.get_label()), model)
                self.mark(text, str(entry.get_label()), model)

    def done(self, title: str) -> Drawn:
        """The figure as text; ``title`` says what it shows."""
        stream = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        self.figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
        # Links lead to places in the page, not to another tab.
        document = stream.getvalue().replace(' target="_blank"', "")
        for number, (model, tip) in enumerate(self._tips):
            belongs = f' data-model="{escape(model)}"' if model else ""
            opening = f'<g id="mark-{number}" class="mark"{belongs}><title>{escape(tip)}</title>'
            document = document.replace(f'<g id="mark-{number}">', opening, 1)
        page, printed = _for_page(document, self.name, title), _for_print(document, title)
        return Drawn(self.name, title, page, printed, _png(self.figure))


def _png(figure: Figure) -> bytes:
    """The figure as a PNG in print colours on white; its stand-in colours are gone afterwards."""
    printed = {to_rgb(stand_in): to_rgb(colour) for stand_in, colour in PRINT_COLOURS.items()}
    for artist in figure.findobj():
        for name in COLOUR_PROPERTIES:
            if hasattr(artist, f"set_{name}") and hasattr(artist, f"get_{name}"):
                _recolour(artist, name, printed)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=PNG_DPI, facecolor="white", metadata={"Software": None})
    return stream.getvalue()


def _recolour(artist: Artist, name: str, printed: dict[Rgb, Rgb]) -> None:
    value = getattr(artist, f"get_{name}")()
    if value is None or (isinstance(value, str) and value in {"none", "auto"}):
        return
    rows = to_rgba_array(value)
    swapped = [(*printed.get(tuple(row[:3]), tuple(row[:3])), row[3]) for row in rows.tolist()]
    if not np.array_equal(rows, np.array(swapped).reshape(rows.shape)):
        getattr(artist, f"set_{name}")(swapped[0] if len(swapped) == 1 else swapped)


def _for_print(document: str, title: str) -> str:
    for stand_in, colour in PRINT_COLOURS.items():
        document = document.replace(stand_in, colour)
    # Links lead to places in the page.
    document = re.sub(r'<a xlink:href="#[^"]*">|</a>', "", document)
    return re.sub(r"(<svg [^>]*>)", rf"\1<title>{escape(title)}</title>", document, count=1)


def _for_page(document: str, name: str, title: str) -> str:
    svg = document[document.index("<svg") :]
    # Its style element would apply to the whole page; the page's own style sheet says the same for figures.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    # Several figures stand in one page: make their ids distinct.
    svg = re.sub(r'(\bid="|url\(#|href="#)(?!task-)', rf"\g<1>{name}-", svg)
    for stand_in, colour in PAGE_COLOURS.items():
        svg = svg.replace(stand_in, colour)
    # The page sets the typeface; sizes stay.
    svg = re.sub(r"font: ([^;\"]*?)(\d[\d.]*px)[^;\"]*", _font, svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def _font(match: re.Match[str]) -> str:
    weight = "700" if "700" in match.group(1) or "bold" in match.group(1) else "400"
    return f"font-size: {match.group(2)}; font-weight: {weight}"


@contextmanager
def style(name: str) -> Iterator[None]:
    """The common look while a figure is drawn; a fixed salt makes the ids in its SVG the same on every run."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        yield


def bare(axes: Axes, grid: Literal["both", "x", "y"] = "both") -> None:
    """No frame and no ticks, a light grid behind the marks."""
    axes.tick_params(length=0)
    axes.grid(axis=grid, color=LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def model_mark(models: Sequence[Model], place: int) -> tuple[str, str]:
    """Shape and colour of a model, the same in all figures of a page."""
    model = models[place]
    number = sum(other.canary == model.canary for other in models[:place])
    if model.canary:
        return CANARY_SHAPES[number % len(CANARY_SHAPES)], MUTED
    return SHAPES[number % len(SHAPES)], COLOURS[number % len(COLOURS)]


def legend_entries(models: Sequence[Model], linewidth: float = 0) -> list[tuple[Line2D, str]]:
    """Legend handles of all models."""
    entries: list[tuple[Line2D, str]] = []
    for place, model in enumerate(models):
        shape, colour = model_mark(models, place)
        line = Line2D(
            [], [], marker=shape, color=colour, markersize=5.5, linewidth=linewidth, label=shortened(model.title, 70)
        )
        entries.append((line, model.id))
    return entries


def legend_columns(names: Sequence[str], width: float = 11.0) -> int:
    """How many legend entries fit beside each other on ``width`` inches."""
    return min(len(names), max(1, int(width / (0.75 + 0.068 * max(map(len, names))))))


def shortened(text: str, length: int) -> str:
    """At most ``length`` characters, the last a sign that some are missing."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "\u2026"


def wrapped(title: str, width: int) -> str:
    """A title on several lines; a word that is too long is parted where a capital stands within it."""
    title = " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", w) if len(w) > width else w for w in title.split())
    lines = textwrap.wrap(title, width=width, max_lines=6, placeholder=" \u2026") or [title[:width]]
    return "\n".join(lines)
