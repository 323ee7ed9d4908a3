"""Builder ``text_pairs``: the text that belongs to a text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json
from medheb.index.builders.common import Context, Pair, Part, RuleOptions, Shown, Wrong
from medheb.index.entries import BUILD_AGAIN, Row
from medheb.index.records import Record
from medheb.index.refusal import RuleError
from medheb.index.text_rules import comparable
from medheb.manifest.rules import LOCAL_TEXTS


class TextOptions(RuleOptions):
    """Settings of ``text_pairs``.

    Args:
        kind: of the files with rows for the test.
        training: of the files with rows for training.
        query: cell.
        target: cell.
        within: cell that wrong texts share with the row, such as the language.
        candidates: of a local pool.
        drawn: file of task rows that the source's published program drew; taken as they are where the protocol says so.
    """

    kind: str = "records"
    training: str = "training"
    query: str = "query"
    target: str = "target"
    within: str | None = None
    candidates: int = LOCAL_TEXTS
    drawn: str | None = None


def _rows(context: Context[TextOptions], part: Part) -> list[Row]:
    """Rows of a part. Files of training rows are all training; the others go by their split, or by the rule's."""
    options = context.options
    found, tested = [], 0
    for source in context.sources.all:
        if part == "train":
            found += list(source.rows(options.training))
        for row in source.rows(options.kind):
            tested += 1
            # A file of test rows has no other split than its own.
            split = row.split or "test"
            if context.part(row.cells, row.dataset, split, row.text("group")) == part:
                found.append(row)
    if not tested:
        names = ", ".join(source.dataset for source in context.sources.all)
        raise RuleError(context.where, f"finds no rows of kind '{options.kind}' in {names}", BUILD_AGAIN)
    return found


def _name(row: Row) -> str:
    return f"{row.dataset}/{row.text('id')}"


def _single(rows: Sequence[Row], options: TextOptions) -> list[Row]:
    """Rows whose query and target occur once each and differ, so that there is one right answer."""
    queries = Counter(comparable(row.text(options.query)) for row in rows)
    targets = Counter(comparable(row.text(options.target)) for row in rows)
    return [
        row
        for row in rows
        if queries[comparable(row.text(options.query))] == 1
        and targets[comparable(row.text(options.target))] == 1
        and comparable(row.text(options.query)) != comparable(row.text(options.target))
    ]


def text_pairs(context: Context[TextOptions], part: Part) -> Iterator[Pair]:
    """Query and target of every row; ambiguous rows are no test rows."""
    options = context.options
    found = _rows(context, part)
    rows = _single(found, options) if part == "test" else found
    context.left_out(len(found) - len(rows), "rows whose query or target is that of another row")
    for row in rows:
        query, target = Shown(row.text(options.query)), Shown(row.text(options.target))
        kind = "\0".join((row.text(options.within) if options.within else "", row.dataset, row.text("group")))
        yield Pair(_name(row), query, target, ((row.dataset, row.text("group")),), kind)


def text_wrong(context: Context[TextOptions], pairs: Sequence[Pair], __: Sequence[Pair]) -> Wrong:
    """Targets of rows of other groups (and of the same language, say)."""
    pools: dict[str, list[Pair]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: pair.name):
        pools[pair.kind.partition("\0")[0]].append(pair)

    def wrong(pair: Pair) -> list[Shown]:
        taken = {comparable(pair.target.text), comparable(pair.query.text)}
        chosen: list[Shown] = []
        for other in context.draw.pick(pools[pair.kind.partition("\0")[0]], pair.name):
            if len(chosen) == context.options.candidates - 1:
                break
            key = comparable(other.target.text)
            if other.kind != pair.kind and key not in taken:
                taken.add(key)
                chosen.append(other.target)
        return chosen

    return wrong


def published_records(context: Context[TextOptions]) -> list[Record] | None:
    """The rows that the published program drew, in its order, cut to the cap; None where there is nothing of the kind.

    Raises:
        MedhebError: the protocol asks for them and the source was built without.
    """
    path = context.options.drawn
    if path is None or not context.published:
        return None
    found: list[Record] = []
    for source in context.sources.all:
        files = [file for file in source.inventory.files if file.path == path]
        if not files:
            raise MedhebError(
                context.where, f"finds no {path}, the rows of the published program", f"{BUILD_AGAIN}, under release"
            )
        rows = parse_json(source.read(files[0]))
        found += [Record.model_validate({**row, "qry_inst": context.task.qry_inst}) for row in rows]
    kept = context.draw.subset(range(len(found)), context.options.rows, "rows", lambda place: found[place].qry_text)
    return [found[place] for place in sorted(kept)]
