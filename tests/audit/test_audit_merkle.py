"""Properties of the roots that an auditor relies on."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from medheb.core.digests import merkle_root, read_sha256sums, sha256sums

NAMES = st.text(alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="\0\\"), min_size=1, max_size=12)
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
TREES = st.dictionaries(NAMES, DIGESTS, max_size=12)


@given(TREES, st.randoms(use_true_random=False))
def test_root_does_not_depend_on_order(tree: dict[str, str], random: object) -> None:
    items = list(tree.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert merkle_root(dict(items)) == merkle_root(tree)


@given(TREES.filter(bool), DIGESTS, st.data())
def test_any_change_of_a_digest_changes_the_root(tree: dict[str, str], digest: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(tree)))
    assert (merkle_root({**tree, path: digest}) == merkle_root(tree)) == (tree[path] == digest)


@given(TREES, NAMES, DIGESTS)
def test_a_path_more_changes_the_root(tree: dict[str, str], path: str, digest: str) -> None:
    if path not in tree:
        assert merkle_root({**tree, path: digest}) != merkle_root(tree)


@given(TREES.filter(bool), NAMES, st.data())
def test_a_renamed_path_changes_the_root(tree: dict[str, str], name: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(tree)))
    renamed = {(name if key == path else key): value for key, value in tree.items()}
    assert (merkle_root(renamed) == merkle_root(tree)) == (renamed == tree)


@given(TREES.filter(lambda tree: len(set(tree.values())) > 1))
def test_swapped_digests_change_the_root(tree: dict[str, str]) -> None:
    first, second = next((a, b) for a in tree for b in tree if tree[a] != tree[b])
    assert merkle_root({**tree, first: tree[second], second: tree[first]}) != merkle_root(tree)


@given(TREES)
def test_root_agrees_with_a_second_formulation(tree: dict[str, str]) -> None:
    def fold(nodes: list[bytes]) -> bytes:
        """Split at the largest power of two below the length: the same tree from above."""
        if len(nodes) == 1:
            return nodes[0]
        cut = 1 << (len(nodes) - 1).bit_length() - 1
        return hashlib.sha256(b"\x01" + fold(nodes[:cut]) + fold(nodes[cut:])).digest()

    leaves = [
        hashlib.sha256(b"\x00" + path.encode() + b"\x00" + tree[path].encode()).digest()
        for path in sorted(tree, key=str.encode)
    ]
    assert merkle_root(tree) == (fold(leaves).hex() if leaves else hashlib.sha256(b"").hexdigest())


@given(TREES)
def test_sums_file_reads_back(tree: dict[str, str]) -> None:
    tree = {path: digest for path, digest in tree.items() if path[0] not in " *"}
    assert read_sha256sums(sha256sums(tree).split("\n")) == tree
