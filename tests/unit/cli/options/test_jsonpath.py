"""kubectl's JSONPath: what templates write, and what is said of those that cannot be read."""

import json
from typing import Any

import pytest

from bayplan.cli.options.jsonpath import JsonPathError, path_of, template_of
from tests.unit.cli.conftest import Bayplan

NODES = {
    "kind": "NodeList",
    "items": [
        {"node": "n1", "zones": 2, "free": {"cpu": "4", "nvidia.com/gpu": "1"}, "stale": False},
        {"node": "n2", "zones": 8, "free": {"cpu": "16"}, "stale": True},
        {"node": "n3", "zones": 2, "free": {"cpu": "8", "nvidia.com/gpu": "8"}, "report": None},
    ],
}


@pytest.mark.parametrize(
    "template, text",
    [
        ("{.kind}", "NodeList"),
        ("{ .kind }", "NodeList"),
        ("{$.kind}", "NodeList"),
        ("kind={.kind}, {.items[0].node}", "kind=NodeList, n1"),
        ("{.items[*].node}", "n1 n2 n3"),
        ("{.items[0].node}", "n1"),
        ("{.items[-1].node}", "n3"),
        ("{.items[-2].node}", "n2"),
        ("{.items[1:].node}", "n2 n3"),
        ("{.items[0:2].node}", "n1 n2"),
        ("{.items[::2].node}", "n1 n3"),
        ("{.items[0].free.*}", "4 1"),
        ("{.items[0]['node']}", "n1"),
        ("{.items[*].free['nvidia.com/gpu']}", "1 8"),
        (r"{.items[*].free['nvidia\.com/gpu']}", "1 8"),
        (r"{.items[*].free.nvidia\.com/gpu}", "1 8"),
        ("{..node}", "n1 n2 n3"),
        ("{.items..cpu}", "4 16 8"),
        ('{.items[?(@.node=="n2")].zones}', "8"),
        ("{.items[?(@.node == 'n2')].zones}", "8"),
        ("{.items[?(@.zones==2)].node}", "n1 n3"),
        ("{.items[?(@.zones>2)].node}", "n2"),
        ("{.items[?(@.zones!=2)].node}", "n2"),
        ("{.items[?(@.stale==true)].node}", "n2"),
        ("{.items[?(@.free['nvidia.com/gpu'])].node}", "n1 n3"),
        ("{.items[?(@.node>2)].node}", ""),
        ('{range .items[*]}{.node}{"\\t"}{.zones}{"\\n"}{end}', "n1\t2\nn2\t8\nn3\t2\n"),
        ("{range .items[*]}{.node}:{range .free.*} {@}{end};{end}", "n1: 4 1;n2: 16;n3: 8 8;"),
        ("{.items[0].free}", '{"cpu": "4", "nvidia.com/gpu": "1"}'),
        ("{.items[*].stale}", "false true"),
        ("{.items[2].report}", "null"),
        ("{.nodes[*].name}", ""),
        ("{.items[7].node}", ""),
        ("{.kind[0]}{.kind.x}{.items.node}", ""),
        ('{"{braces}"}', "{braces}"),
    ],
)
def test_templates_write_what_kubectl_would(template: str, text: str) -> None:
    assert "".join(template_of(template).pieces(NODES)) == text


@pytest.mark.parametrize(
    "template, error",
    [
        (".items", "character 1, before '.items': expected an expression in braces"),
        ("{.items[0}", "character 8, before '[0}': expected }"),
        ("{.items", "character 8, at the end: expected }"),
        ("{}", "character 2, before '}': expected a path or a string"),
        ("{items}", "character 2, before 'items}': expected a path or a string"),
        ("{.items['a','b']}", "character 8, before \"['a','b']}\": expected }"),
        ("{.items[?(@.a=b)]}", "character 8, before '[?(@.a=b)]}': expected }"),
        ("{.items[?(@.a==b)]}", "character 16, before 'b)]}': expected a string in quotes, a number, true or false"),
        ("{range .items[*]}{.node}", "character 25, at the end: expected {end}"),
        ("{.kind}{end}", "character 8, before '{end}': expected {range PATH} before {end}"),
        ("{range}", "character 2, before 'range}': expected a path or a string"),
    ],
)
def test_errors_name_the_character(template: str, error: str) -> None:
    with pytest.raises(JsonPathError) as raised:
        template_of(template)
    assert str(raised.value).startswith(error)
    assert "supported: .field" in str(raised.value)


@pytest.mark.parametrize("path", ["{.free.cpu}", ".free.cpu", "free.cpu", "$.free.cpu", "['free'].cpu"])
def test_a_path_to_sort_by_may_leave_out_braces_and_the_first_dot(path: str) -> None:
    assert path_of(path).find(NODES["items"][0]) == ["4"]


def test_a_path_to_sort_by_ends_with_the_text() -> None:
    with pytest.raises(JsonPathError, match=r"character 6, before ' cpu': expected a field"):
        path_of("{free cpu}")


def printed(bayplan: Bayplan, *words: str) -> Any:
    result = bayplan(*words)
    assert result.err == ""
    return result.out


def test_every_document_of_a_command_can_be_printed_by_a_template(bayplan: Bayplan) -> None:
    nodes = json.loads(printed(bayplan, "nodes", "-o", "json"))["items"]
    assert printed(bayplan, "nodes", "-o", "jsonpath={.items[*].node}").split() == [each["node"] for each in nodes]
    assert printed(bayplan, "numa", "telco-1", "-o=jsonpath={.node}") == "telco-1\n"


@pytest.mark.parametrize(
    "output, error",
    [
        ("jsonpath", "jsonpath needs a template: -o jsonpath='{.items[*].node}'"),
        ("jsonpath={.items[0}", "jsonpath: character 8, before '[0}': expected }"),
        ("jsonpaths={.items}", "'jsonpaths={.items}' is not one of 'text'"),
        ("json={.items}", "'json={.items}' is not one of 'text'"),
    ],
)
def test_a_template_that_cannot_be_read_is_an_error(bayplan: Bayplan, output: str, error: str) -> None:
    result = bayplan("nodes", "-o", output)
    assert (result.code, result.out) == (2, "")
    assert error in result.err


def test_a_value_cannot_drive_the_terminal() -> None:
    assert "".join(template_of("{.a}").pieces({"a": "x\x1b[31m\n"})) == r"x\x1b[31m\n"
