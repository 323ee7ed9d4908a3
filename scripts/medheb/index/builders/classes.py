"""Builders over classes: ``label``, ``same_label`` and ``label_to_image``.

Only items with exactly one label count, and pictures whose pixels stand under several labels give no row, so that no
wrong candidate is right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from medheb.index.builders.common import (
    Context,
    Pair,
    Part,
    RuleOptions,
    Shown,
    Wrong,
    group_of,
)
from medheb.index.entries import Entry, Select, distinct
from medheb.index.refusal import RuleError
from medheb.manifest.rules import LOCAL_IMAGES

SEVERAL = " | "
ONE_CLASS = "finds one class only, so that no candidate is wrong"
MORE_CLASSES = "Build the source with pictures of at least two classes"


class ClassOptions(RuleOptions):
    """Settings of builders over classes.

    Args:
        items: pictures or volumes.
        label: fact that names the class.
        family: fact that names a wider class; an item labelled with its bare family ("vertebrae") and one of a
            member ("T12 vertebra") are never each other's wrong answer.
        candidates: of a local pool of pictures; one picture a class.
        training: the source's own list of training pictures, if these stay where they are and are not built.
    """

    items: Select
    label: str = "label"
    family: str | None = None
    candidates: int = LOCAL_IMAGES
    training: str | None = None


class SameOptions(ClassOptions):
    """Settings of ``same_label``.

    Args:
        prefer: fact that the right picture shares with the query where one of its class does.
        across: queries come from all sources but the last, candidates from the last.
        apart: fact in which the right picture differs from the query where one of its class does.
    """

    prefer: str | None = None
    across: bool = False
    apart: str = "group"


def confusable(label: str, family: str, other_label: str, other_family: str) -> bool:
    """True if one label is right wherever the other is: equal, or one is the other's bare family.

    "left kidney" and "right kidney" are different answers; "vertebrae" and "T12 vertebra" are not.
    """
    return label == other_label or (family == other_family and (label == family or other_label == other_family))


def _family(entry: Entry, options: ClassOptions) -> str:
    return entry.fact(options.family) if options.family else entry.fact(options.label)


def labelled(context: Context[ClassOptions], role: str = "all") -> list[Entry]:
    """Items with exactly one label whose pixels have no other label anywhere in the sources."""
    options = context.options
    found = context.entries(options.items, role)
    single = [entry for entry in found if SEVERAL not in (entry.known(options.label) or SEVERAL)]
    if found and not single:
        if not any(entry.known(options.label) for entry in found):
            raise RuleError(
                context.where,
                f"finds {len(found)} items, none with the fact '{options.label}'",
                "Build the source with its table of labels",
            )
        raise RuleError(context.where, "finds items with several labels only", "Give a source with single labels")
    labels: dict[str, set[str]] = defaultdict(set)
    for entry in single:
        labels[entry.content].add(entry.fact(options.label))
    kept = [entry for entry in single if len(labels[entry.content]) == 1]
    context.left_out(len(single) - len(kept), "items whose pixels stand under several labels")
    return kept


def of_part(context: Context[ClassOptions], part: Part, role: str = "all") -> list[Entry]:
    """Labelled items of a part; those of the source's own list for training where the rule names one."""
    path = context.options.training
    if part == "train" and path is not None:
        return [entry for source in context.sources.of(role) for entry, _ in source.listed("selection", path)]
    return context.of_part(labelled(context, role), part)


def _families(context: Context[ClassOptions]) -> dict[str, str]:
    """Family of each label, over all parts of all sources; labels that only occur among several count too."""
    options = context.options
    if options.family is not None:
        return {entry.fact(options.label): _family(entry, options) for entry in labelled(context)}
    found = (entry.known(options.label) for entry in context.entries(options.items))
    return {label: label for joined in found if joined for label in joined.split(SEVERAL)}


def label_pairs(context: Context[ClassOptions], part: Part) -> Iterator[Pair]:
    """Which label does the picture or volume have? Every source gives queries."""
    for entry in distinct(of_part(context, part)):
        label = entry.fact(context.options.label)
        yield Pair(entry.name, Shown(context.task.qry_text, entry), Shown(label), (group_of(entry),), label)


def label_wrong(context: Context[ClassOptions], _: Sequence[Pair], __: Sequence[Pair]) -> Wrong:
    """All other labels of the sources, of whatever part.

    The released pools hold some 300 labels of all sources; which, nobody has published.
    """
    families = _families(context)
    names = sorted(families)
    if len(names) == 1:
        raise RuleError(context.where, ONE_CLASS, MORE_CLASSES)

    def wrong(pair: Pair) -> list[Shown]:
        right = pair.kind
        return [
            Shown(name)
            for name in context.draw.pick(names, pair.name)
            if not confusable(right, families[right], name, families[name])
        ]

    return wrong


def _by_class(found: Iterable[Entry], fact: Callable[[Entry], str]) -> dict[str, list[Entry]]:
    """Entries by class, each class in name order, each content once."""
    classes: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(distinct(sorted(found, key=lambda entry: entry.name)), key=lambda entry: entry.name):
        classes[fact(entry)].append(entry)
    return dict(sorted(classes.items()))


def _class_of(context: Context[ClassOptions]) -> Callable[[Entry], str]:
    return lambda entry: _family(entry, context.options)


def same_pairs(context: Context[SameOptions], part: Part) -> Iterator[Pair]:
    """Another picture of the same class, of another group where the class has one.

    Raises:
        RuleError: a global pool, where other pictures of the class would count as wrong.
    """
    context.needs_pool("local")
    options = context.options
    if options.across and len(context.sources.all) < 2:
        raise RuleError(context.where, "has one source", "Name at least two: queries, then candidates")
    class_of = _class_of(context)
    candidates = of_part(context, part, "last" if options.across else "all")
    classes = _by_class(candidates, class_of)
    queries = of_part(context, part, "first" if options.across else "all")
    missing = 0
    for query in distinct(queries):
        right = _right(context, query, classes.get(class_of(query), []))
        if right is None:
            missing += 1
            continue
        groups = (group_of(query), group_of(right))
        yield Pair(query.name, Shown(context.task.qry_text, query), Shown("", right), groups, class_of(query))
    context.left_out(missing, "queries without another picture of their class")


def _right(context: Context[SameOptions], query: Entry, members: Sequence[Entry]) -> Entry | None:
    """The drawn right picture: of the preferred fact if any has it, and of another group if any is."""
    options, found = context.options, None
    prefer = options.prefer
    if prefer is not None:
        members = [entry for entry in members if entry.known(prefer) == query.known(prefer)] or members
    own = query.known(options.apart)
    for entry in context.draw.pick(members, f"{query.name}|positive"):
        if entry.content == query.content:
            continue
        if own is None or entry.known(options.apart) != own:
            return entry
        found = found or entry
    return found


def one_of_each(context: Context[ClassOptions], classes: dict[str, list[Entry]]) -> Wrong:
    """Wrong pictures: one a class, so that classes with many pictures do not fill the pool."""
    names = list(classes)
    if len(names) == 1:
        raise RuleError(context.where, ONE_CLASS, MORE_CLASSES)

    def wrong(pair: Pair) -> list[Shown]:
        right = pair.target.entry
        taken = {shown.entry.content for shown in (pair.query, pair.target) if shown.entry is not None}
        chosen: list[Shown] = []
        for name in context.draw.pick(names, pair.name):
            if len(chosen) == context.options.candidates - 1:
                break
            if right is None or _same_class(context, pair, name, classes[name][0]):
                continue
            entry = next(
                (one for one in context.draw.pick(classes[name], f"{pair.name}|{name}") if one.content not in taken),
                None,
            )
            if entry is not None:
                taken.add(entry.content)
                chosen.append(Shown("", entry))
        return chosen

    return wrong


def _same_class(context: Context[ClassOptions], pair: Pair, name: str, member: Entry) -> bool:
    right = pair.target.entry
    if name == pair.kind or right is None:
        return True
    family, other = _family(right, context.options), _family(member, context.options)
    return confusable(pair.kind, family, name, other)


def same_wrong(context: Context[SameOptions], _: Sequence[Pair], __: Sequence[Pair]) -> Wrong:
    """Pictures of other classes from the candidates' side."""
    return one_of_each(context, _by_class(same_pool(context), _class_of(context)))


def same_pool(context: Context[SameOptions]) -> list[Entry]:
    """Pictures of the test on the candidates' side."""
    return context.of_part(labelled(context, "last" if context.options.across else "all"), "test")


def image_pairs(context: Context[ClassOptions], part: Part) -> Iterator[Pair]:
    """A picture of the named class. Every source gives candidates.

    Local: each picture is one row's right answer. Global: one row and one picture a label, the middle one in
    name order, since other pictures of a label would count as wrong.
    """
    options = context.options
    found = distinct(of_part(context, part))
    if context.task.pool == "global" and part == "test":
        classes = _by_class(found, lambda entry: entry.fact(options.label))
        found = _without_confusable([members[len(members) // 2] for members in classes.values()], options)
    for entry in found:
        label = entry.fact(options.label)
        yield Pair(entry.name, Shown(label), Shown("", entry), (group_of(entry),), label)


def _without_confusable(found: Sequence[Entry], options: ClassOptions) -> list[Entry]:
    """Leave out bare families ("vertebrae") where a member ("T12 vertebra") is in the pool too."""
    bare = {entry.name for entry in found if options.family and entry.fact(options.label) == _family(entry, options)}
    specific = {_family(entry, options) for entry in found if options.family and entry.name not in bare}
    return [entry for entry in found if entry.name not in bare or _family(entry, options) not in specific]


def image_wrong(context: Context[ClassOptions], _: Sequence[Pair], __: Sequence[Pair]) -> Wrong:
    """Pictures of other labels."""
    return one_of_each(context, _by_class(pool(context), lambda entry: entry.fact(context.options.label)))


def pool(context: Context[ClassOptions]) -> list[Entry]:
    """Pictures of the test."""
    return context.of_part(labelled(context), "test")
