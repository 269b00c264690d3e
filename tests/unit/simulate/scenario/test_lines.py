"""Files become trees of values with places; sections hand the values out and collect what is wrong."""

from pathlib import Path

import pytest

from bayplan.simulate.scenario.lines import Faults, ScenarioError, Section, YamlValue, read_yaml, suggestion
from bayplan.simulate.scenario.values import text, whole_number


def tree(folder: Path, content: str) -> YamlValue:
    file = folder / "x.yaml"
    file.write_text(content)
    return read_yaml(file, Faults())


def problems(written: YamlValue) -> str:
    with pytest.raises(ScenarioError) as error:
        written.faults.check()
    return str(error.value).replace(f"{written.place.file.parent}/", "")


def test_every_value_knows_its_line_and_key(tmp_path: Path) -> None:
    root = tree(tmp_path, "a: 1\nb:\n  - c: {example.com/gpu: 2}\n    d: x\n")
    assert str(root.at("b[0].d").place).endswith("x.yaml:4:5: b[0].d")
    assert str(root.at('b[0].c["example.com/gpu"]').place).endswith('x.yaml:3:9: b[0].c["example.com/gpu"]')


def test_a_path_that_leads_nowhere_ends_at_the_last_value_on_it(tmp_path: Path) -> None:
    root = tree(tmp_path, "a: {b: [1]}\n")
    assert root.at("a.b[7].c").place.key == "a.b"
    assert root.at("a[...].b").place.key == "a"


def test_scalars_are_texts_here_and_typed_values_for_kubernetes(tmp_path: Path) -> None:
    root = tree(tmp_path, "{a: 007, b: yes, c: 0.5, d: 2001-01-01, e: '8', f: null, g: !!int word}")
    assert [root.at(key).content for key in "abcdefg"] == ["007", "yes", "0.5", "2001-01-01", "8", None, "word"]
    assert root.plain() == {"a": 7, "b": True, "c": 0.5, "d": "2001-01-01", "e": "8", "f": None, "g": "word"}


def test_anchors_and_merged_keys_work(tmp_path: Path) -> None:
    root = tree(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [*a, {z: 4}]}\n")
    assert root.plain()["b"] == {"x": 1, "y": 3}
    assert root.plain()["c"] == {"x": 1, "y": 2, "z": 4}


def test_one_reading_finds_all_faults_in_the_order_of_lines(tmp_path: Path) -> None:
    section = Section(tree(tmp_path, "cuont: 3\ncount: -1\nname: [x]\n"), ("name", "count", "machine"))
    assert section.take("name", text, "missing") == "missing"
    assert section.need("count", whole_number(1, 9), 1) == 1
    section.need("machine", text, "")
    assert problems(section.written).splitlines() == [
        "x.yaml:1:1: cuont: is unknown: did you mean count?",
        "x.yaml:1: machine: is missing",
        "x.yaml:2:1: count: -1 is negative: must be 1 or more",
        "x.yaml:3:1: name: a list is not allowed: must be a single value",
    ]


def test_ten_faults_are_told_and_the_rest_is_counted(tmp_path: Path) -> None:
    section = Section(tree(tmp_path, "".join(f"key{number}: 1\n" for number in range(15))), ("name",))
    lines = problems(section.written).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "and 5 more"


@pytest.mark.parametrize(
    "content, message",
    [
        ("a: 1\na: 2\n", "x.yaml:2:1: a: appears twice"),
        ("? [a]\n: 1\n", "x.yaml:1:3: holds a key that is not a string"),
        ("a:\n  <<: hello\n", 'x.yaml:2:3: a.<<: "hello" is not allowed: must be a mapping, or a list of them'),
        ("a: {<<: [{b: 1}, [2]]}\n", "x.yaml:1:5: a.<<: a list is not allowed: must be a mapping, or a list of them"),
    ],
)
def test_keys_that_make_no_sense(tmp_path: Path, content: str, message: str) -> None:
    assert problems(tree(tmp_path, content)) == message


@pytest.mark.parametrize(
    "content, message",
    [
        ("a: [\n", "x.yaml:2:1: is not valid YAML: expected a value here"),
        ("a: b: c\n", 'x.yaml:1:5: is not valid YAML: unexpected ":"'),
        ("a: 1\n---\nb: 2\n", "x.yaml:3:1: expected one document"),
        ("a: \x00\n", "x.yaml:1: is not a text file of YAML"),
        ("", "x.yaml:1: is empty"),
        ("# only a comment\n", "x.yaml:1: is empty"),
        ("- " * 5000, "is nested too deeply"),
        ("a: &a [*a]\n", "x.yaml:1:8: is nested too deeply: *a stands inside of itself"),
        (
            "a: &a [x,x,x,x,x,x,x,x]\n" + "".join(f"{k}: &{k} [{','.join([f'*{p}'] * 8)}]\n" for p,
                                                  k in zip("abcdefg", "bcdefgh", strict=True)),
            "repeats itself too often",
        ),
    ],
    ids=lambda value: value[:30],
)  # fmt: skip
def test_files_that_cannot_be_read_at_all(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        tree(tmp_path, content)
    assert message in str(error.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.yaml: does not exist"):
        read_yaml(tmp_path / "none.yaml", Faults())
    with pytest.raises(ScenarioError, match="is a folder"):
        read_yaml(tmp_path, Faults())
    (tmp_path / "x.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ScenarioError, match="is not UTF-8 text"):
        read_yaml(tmp_path / "x.yaml", Faults())


@pytest.mark.parametrize(
    "word, end",
    [
        ("topologymanagerpolicy", ": did you mean topologyManagerPolicy?"),
        ("policy", ": must be one of topologyManagerPolicy, maxPods"),
    ],
)
def test_unknown_words_get_a_suggestion_or_the_list(word: str, end: str) -> None:
    assert suggestion(word, ("topologyManagerPolicy", "maxPods")) == end
