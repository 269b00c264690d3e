"""Label columns: one number per node and key, kept current as nodes come, change and go."""

from __future__ import annotations

import pytest

from bayplan.cluster.columns.labels import ABSENT, FEW_ROWS, MOST_COLUMNS, SPARE_VALUES, LabelColumns, whole_number
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Node
from tests.builders.objects import node


def values_by_node(state: ClusterState, key: str) -> dict[str, str | None]:
    values = state.labels.values(key)
    codes = state.labels.codes(key)
    return {name: values[codes[row]] if codes[row] else None for name, row in state.rows.items()}


def test_a_key_asked_for_later_is_known_for_all_nodes() -> None:
    state = ClusterState()
    state.set_node(node("a", labels={"disk": "ssd", "rack": "r1"}))
    state.set_node(node("b", labels={"disk": "hdd"}))
    assert values_by_node(state, "disk") == {"a": "ssd", "b": "hdd"}
    assert values_by_node(state, "rack") == {"a": "r1", "b": None}


def test_keys_are_known_however_many_nodes_come_to_have_them() -> None:
    """Up to some number it is known which nodes have a key, from there on only how many."""
    state = ClusterState()
    for number in range(2 * FEW_ROWS):
        state.set_node(node(f"n{number}"))
    values_by_node(state, "zone")
    for number in (*range(FEW_ROWS + 4), *range(FEW_ROWS + 4)):
        had = (values_by_node(state, "zone")[f"n{number}"] is not None) if number % 3 == 0 else False
        state.set_node(node(f"n{number}", labels=None if had else {"zone": f"z{number}"}))
        named = {each.metadata.name: (each.metadata.labels or {}).get("zone") for each in state.nodes if each}
        assert values_by_node(state, "zone") == named


def test_a_node_with_thousands_of_labels_makes_no_column_of_all_nodes_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ClusterState()
    for number in range(1000):
        state.set_node(node(f"n{number}", labels={"zone": "z"}))
    state.set_node(node("n0", labels={f"key-{each}": "x" for each in range(1000)}))
    state.labels.codes("zone")
    looked_at: list[str] = []

    def encode(key: str, _: Node | None) -> int:
        looked_at.append(key)
        return 1

    monkeypatch.setattr(state.labels, "_encode", encode)
    for each in range(1000):
        state.labels.codes(f"key-{each}")
    assert len(looked_at) == 1000


def test_an_empty_value_is_not_an_absent_label() -> None:
    state = ClusterState()
    state.set_node(node("a", labels={"gpu": ""}))
    state.set_node(node("b"))
    assert values_by_node(state, "gpu") == {"a": "", "b": None}


def test_columns_follow_relabelled_new_and_removed_nodes() -> None:
    state = ClusterState()
    state.set_node(node("a", labels={"disk": "ssd"}))
    assert values_by_node(state, "disk") == {"a": "ssd"}
    state.set_node(node("a", labels={"disk": "nvme"}))
    state.set_node(node("b", labels={"disk": "ssd"}))
    assert values_by_node(state, "disk") == {"a": "nvme", "b": "ssd"}
    state.remove_node("a")
    state.set_node(node("c"))
    assert values_by_node(state, "disk") == {"b": "ssd", "c": None}


def test_equal_values_have_equal_numbers() -> None:
    state = ClusterState()
    for name, disk in (("a", "ssd"), ("b", "hdd"), ("c", "ssd")):
        state.set_node(node(name, labels={"disk": disk}))
    first, second, third = state.labels.codes("disk").tolist()
    assert first == third != second


def test_new_nodes_are_encoded_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column is extended, not made again: a thousand nodes that come one by one are not a million labels."""
    state = ClusterState()
    for number in range(50):
        state.set_node(node(f"n{number}", labels={"rack": f"r{number % 5}"}))
    state.labels.codes("rack")
    encoded = []
    encode = LabelColumns._encode

    def counted(columns: LabelColumns, key: str, of: Node | None) -> int:
        encoded.append(of)
        return encode(columns, key, of)

    monkeypatch.setattr(LabelColumns, "_encode", counted)
    state.set_node(node("new", labels={"rack": "r9"}))
    assert values_by_node(state, "rack")["new"] == "r9"
    assert len(encoded) == 1


def test_labels_that_no_node_has_cost_no_column() -> None:
    state = ClusterState()
    state.set_node(node("a", labels={"disk": "ssd"}))
    state.labels.codes("disk")
    for number in range(1000):
        assert state.labels.codes(f"asked/{number}").tolist() == [ABSENT]
    assert list(state.labels._codes) == ["disk"]
    state.set_node(node("a", labels={"disk": "ssd", "asked/0": "yes"}))
    assert [values_by_node(state, key)["a"] for key in ("disk", "asked/0", "asked/1")] == ["ssd", "yes", None]
    state.set_node(node("a", labels={"asked/0": "yes"}))
    assert list(state.labels._codes) == ["asked/0"]
    assert [values_by_node(state, key)["a"] for key in ("disk", "asked/0")] == [None, "yes"]


def test_a_node_with_very_many_labels_costs_few_columns() -> None:
    state = ClusterState()
    state.set_node(node("odd", labels={f"key-{number}": "x" for number in range(3 * MOST_COLUMNS)}))
    state.set_node(node("a", labels={"disk": "ssd"}))
    for number in range(3 * MOST_COLUMNS):
        assert values_by_node(state, f"key-{number}") == {"odd": "x", "a": None}
    assert len(state.labels._codes) == MOST_COLUMNS
    assert values_by_node(state, "disk") == {"odd": None, "a": "ssd"}


def test_a_label_that_changes_again_and_again_leaves_no_trace() -> None:
    state = ClusterState()
    for number in range(5 * SPARE_VALUES):
        state.set_node(node("a", labels={"boot": str(number)}))
        state.labels.codes("boot")
    assert values_by_node(state, "boot") == {"a": str(5 * SPARE_VALUES - 1)}
    assert len(state.labels.values("boot")) < 2 * SPARE_VALUES


@pytest.mark.parametrize(
    "text, number",
    [("7", 7), ("-3", -3), ("x", None), ("", None), ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None)],
)
def test_only_whole_numbers_of_64_bits_are_compared(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_a_column_is_current_and_cannot_be_written_to() -> None:
    state = ClusterState()
    state.set_node(node("a", labels={"disk": "ssd", "slots": "4"}))
    before = state.labels.codes("disk")
    state.set_node(node("a", labels={"disk": "hdd", "slots": "4"}))
    assert before.tolist() == state.labels.codes("disk").tolist() == [2]
    for column in (before, state.labels.codes("nowhere"), *state.labels.whole_numbers("slots")):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7
