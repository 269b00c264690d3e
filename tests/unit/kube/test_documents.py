"""From a field back to its line and column, in YAML and JSON; and what is said about files that are neither."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bayplan.kube.documents import Document, located, read_documents
from bayplan.kube.errors import InvalidObject


def only(tmp_path: Path, text: str | bytes) -> Document:
    file = tmp_path / "file"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    (document,) = read_documents(file)
    return document


YAML = "a: 1\nb:\n- c: {x.y/z: 2}\n  d: é\n  e: 5\n"
JSON = '{"a": 1,\n "b": [\n  {"c": {"x.y/z": 2},\n   "d": "é", "e": 5}]}\n'


@pytest.mark.parametrize(
    "field, in_yaml, in_json",
    [
        ("a", "1:1", "1:2"),
        ("b", "2:1", "2:2"),
        ("b[0]", "3:3", "3:3"),
        ('b[0].c["x.y/z"]', "3:7", "3:10"),
        ("b[0].e", "5:3", "4:14"),
        ("b[0].missing", "3:3", "3:3"),
        ("b[7].c", "2:1", "2:2"),
        ("", "1:1", "1:1"),
    ],
)
def test_a_field_is_found_or_what_is_nearest_above_it(tmp_path: Path, field: str, in_yaml: str, in_json: str) -> None:
    assert str(only(tmp_path, YAML).position(field)) == in_yaml
    assert str(only(tmp_path, JSON).position(field)) == in_json


@pytest.mark.parametrize("text", ["a: 1\nb: {c: 2, c: 3}\n", '{"a": 1, "b": {"c": 2,\n "c": 3}}'])
def test_a_key_that_stands_twice_is_found_with_its_second_place(tmp_path: Path, text: str) -> None:
    document = only(tmp_path, text)
    assert document.repeated_keys() == ["b.c"]
    assert str(document.position("b.c")) == ("2:11" if text[0] == "a" else "2:2")


def test_yaml_means_what_it_means_to_kubectl(tmp_path: Path) -> None:
    text = "[y, off, 1e3, 22:22, 2026-01-01, 0755, 1_000, '5', 1.0, ~]"
    values = msgspec.json.decode(only(tmp_path, f"a: {text}").json)["a"]
    assert values == ["y", False, 1000, "22:22", "2026-01-01", 0o755, 1000, "5", 1, None]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a:\n\tb: 1\n", ":2:1: is not valid YAML: a tab cannot indent"),
        ("a: b: c\n", ':1:5: is not valid YAML: unexpected ":"'),
        ("a: [1,\nb: 2\n", ':3:1: is not valid YAML: a list that begins with "[" is not closed'),
        ('a: "x\n', ":2:1: is not valid YAML: a quoted text is not closed"),
        ('{"a": 1,\n "b" 2}', ":2:6: is not valid JSON: expected ':'"),
        ('{"a": [1, 2', ":1:12: is not valid JSON: it ends too early"),
        (b"a: \xff\n", ":1:4: is not a text file of YAML or JSON"),
        (b'{"a": "\xff"}', None),
    ],
)
def test_a_file_that_is_neither_is_told_with_its_place(tmp_path: Path, text: str | bytes, message: str | None) -> None:
    if message is None:  # found where a value is decoded
        only(tmp_path, text)
        return
    with pytest.raises(InvalidObject) as caught:
        only(tmp_path, text)
    assert str(caught.value).startswith(f"file {tmp_path / 'file'}{message}")


def test_a_message_that_begins_with_a_field_gets_its_place(tmp_path: Path) -> None:
    only(tmp_path, YAML)
    file = tmp_path / "file"
    assert located(file, "b[0].e: must be 4") == f"{file}:5:3: b[0].e: must be 4"
    assert located(file, "no field at all") == f"{file}: no field at all"
