"""Plugins of other packages: their mistakes are named with plugin, package, method and problem."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayplan.config.configuration import ConfigurationError, configuration_of
from bayplan.dispatch.actions import Bind, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.engine.numa.rows import count
from bayplan.extensions import PLUGINS, BrokenExtension, misspelt_groups
from bayplan.plugins.base import FilterPlugin, ScorePlugin
from bayplan.plugins.node_resource_topology_args import ArgumentError
from bayplan.plugins.registry import build_plugin
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import Profile, default_profile
from tests.builders.clusters import cluster
from tests.builders.entries import entries_of
from tests.builders.objects import node, simple_pod

NAME = "PreferBlock"
STATE = cluster(nodes=[node(f"n{number}", {"cpu": 8, "memory": "8Gi", "pods": 10}) for number in range(3)])
POD = STATE.classes.of(simple_pod({"cpu": 1}))
ALL = slice(0, 3)


def plugin(**members: Any) -> Any:
    """A right plugin, but for these members."""
    right = {
        "name": NAME,
        "reads_usage": False,
        "applies": lambda pod: True,
        "refusals": lambda state, pod, rows: np.zeros(count(rows), dtype=np.uint8),
        "cause": lambda pod, code: "is not in a block",
        "applies_score": lambda pod: True,
        "scores": lambda state, pod, rows: np.full(count(rows), 50, dtype=np.int32),
    }
    return SimpleNamespace(**{name: member for name, member in {**right, **members}.items() if member is not LACKING})


LACKING = object()


def built(made: Any) -> Any:
    with entries_of((PLUGINS, NAME, lambda arguments: made)):
        return build_plugin(NAME, None)


def raises(*_: object) -> Any:
    raise KeyError("boop")


def answers(value: Any) -> Callable[..., Any]:
    return lambda *_: value


ASK: dict[str, Callable[[Any], Any]] = {
    "applies": lambda made: made.applies(POD),
    "refusals": lambda made: made.refusals(STATE, POD, ALL),
    "refusal": lambda made: made.refusal(STATE, POD, 1),
    "cause": lambda made: made.cause(POD, 1),
    "applies_score": lambda made: made.applies_score(POD),
    "scores": lambda made: made.scores(STATE, POD, ALL),
    "score": lambda made: made.score(STATE, POD, 1),
}


@pytest.mark.parametrize(
    "method, answer, problem",
    [
        *((method, raises, "KeyError: 'boop'") for method in ASK),
        ("applies", answers(None), "returned None; must be True or False"),
        ("refusals", answers([0, 0, 0]), "returned a list; must be a NumPy array"),
        ("refusals", answers(np.zeros(2, dtype=np.uint8)), "returned an array of shape (2,) for 3 nodes"),
        ("refusals", answers(np.array([0, 300, 0])), "returned 300; must be 0 to 255"),
        ("refusals", answers(np.array([0, -1, 0])), "returned -1; must be 0 to 255"),
        ("refusal", answers(None), "returned None; must be a whole number"),
        ("cause", answers(None), "returned None for code 1; must be a text"),
        ("scores", answers(None), "returned None; must be a NumPy array"),
        ("scores", answers(np.zeros(3)), "returned an array of float64; must be of integers"),
        ("scores", answers(np.array([0, 100, 101])), "returned 101; must be 0 to 100"),
        ("score", answers(3.5), "returned 3.5; must be a whole number"),
    ],
)
def test_a_wrong_answer_names_plugin_package_and_method(method: str, answer: Callable[..., Any], problem: str) -> None:
    with pytest.raises(BrokenExtension) as error:
        ASK[method](built(plugin(**{method: answer})))
    whose = f'bayplan.plugins: "{NAME}" of package squad-pkg'
    assert str(error.value) == f"{whose} failed in {method}: {problem}; report it to that package"


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_right_answers_become_the_types_that_bayplan_counts_with(kind: type[np.integer[Any]]) -> None:
    made = built(
        plugin(
            refusals=answers(np.array([False, True, False])),
            scores=answers(np.array([0, 50, 100], dtype=kind)),
        )
    )
    assert (made.refusals(STATE, POD, ALL).dtype, made.refusals(STATE, POD, ALL).tolist()) == (np.uint8, [0, 1, 0])
    assert (made.scores(STATE, POD, ALL).dtype, made.scores(STATE, POD, ALL).tolist()) == (np.int32, [0, 50, 100])
    assert isinstance(made, FilterPlugin)
    assert isinstance(made, ScorePlugin)


def test_the_answer_for_one_node_follows_from_that_for_many() -> None:
    made = built(plugin(scores=lambda state, pod, rows: np.arange(3)[rows]))
    assert (made.score(STATE, POD, 2), made.refusal(STATE, POD, 2)) == (2, 0)
    only_scores = built(plugin(applies=LACKING, refusals=LACKING, cause=LACKING))
    assert isinstance(only_scores, ScorePlugin)
    assert not isinstance(only_scores, FilterPlugin)


class Derived(ScorePlugin):
    """What a protocol has is no answer."""

    name = NAME


DERIVED: Any = Derived


class Factory:
    """Takes the arguments, like a factory, but is none."""

    def __init__(self, arguments: object) -> None:
        self.arguments = arguments


@pytest.mark.parametrize(
    "registered, problem",
    [
        (Factory, "is the class Factory; must be a function that takes the arguments and returns a plugin"),
        ("text", "is of type str; must be a function that takes the arguments and returns a plugin"),
        (lambda: None, "failed in <lambda>: TypeError: "),
        (raises, "failed in raises: KeyError: 'boop'; report it to that package"),
        (answers(Factory), "returns the class Factory; must return an instance of it"),
        (
            answers(None),
            "lacks applies, refusals and cause to filter, or applies_score and scores to score; and name, reads_usage",
        ),
        (answers(plugin(cause=LACKING, scores=LACKING, name=LACKING)), "which lacks name, cause, scores"),
        (answers(DERIVED()), "returns a Derived, which lacks applies, refusals and cause to filter"),
        (answers(plugin(name="Other")), f"returns a plugin called 'Other'; its name must be \"{NAME}\""),
        (answers(plugin(reads_usage=0)), "returns a plugin whose reads_usage is 0; must be True or False"),
    ],
)
def test_what_is_no_factory_of_plugins_is_told_in_one_message(registered: Any, problem: str) -> None:
    with entries_of((PLUGINS, NAME, registered)), pytest.raises(BrokenExtension) as error:
        build_plugin(NAME, None)
    assert problem in str(error.value)
    assert "of package squad-pkg" in str(error.value)


def configured(*names: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": name} for name in names]}}, **more}],
    }


def needs_a_block(arguments: dict[str, Any] | None) -> Any:
    if not arguments:
        raise ArgumentError("block: is missing")
    return plugin()


@pytest.mark.parametrize(
    "document, problem",
    [
        (configured(NAME), "profiles[0]: PreferBlock: block: is missing"),
        (
            configured(NAME, pluginConfig=[{"name": NAME}]),
            "profiles[0].pluginConfig[0].args.block: is missing",
        ),
    ],
)
def test_a_missing_argument_is_told_with_and_without_arguments(document: dict[str, Any], problem: str) -> None:
    with entries_of((PLUGINS, NAME, needs_a_block)), pytest.raises(ConfigurationError) as error:
        configuration_of(document)
    assert str(error.value) == problem


def test_arguments_of_a_plugin_that_is_off_change_nothing() -> None:
    with entries_of((PLUGINS, NAME, needs_a_block)):
        profiles = configuration_of(configured(pluginConfig=[{"name": NAME, "args": {"block": 1}}])).profiles
    assert NAME not in profiles["bayplan"].filter_names


@pytest.mark.parametrize(
    "name", ["TaintToleration", "ImageLocality", "numa-aware", "PrioritySort", "DefaultPreemption"]
)
def test_no_package_replaces_a_plugin_of_bayplan(name: str) -> None:
    with (
        entries_of((PLUGINS, name, needs_a_block)),
        pytest.raises(BrokenExtension, match=f'"{name}" of package squad-pkg has the name of a plugin of bayplan'),
    ):
        configuration_of(configured())


@pytest.mark.parametrize(
    "group, told",
    [
        ("bayplan.plugin", ["ignored; did you mean bayplan.plugins?"]),
        ("bayplan.dialect", ["ignored; did you mean bayplan.dialects?"]),
        ("bayplan.other-things", ["ignored; known: bayplan.plugins, bayplan.dialects"]),
        ("bayplan.plugins", []),
        ("console_scripts", []),
    ],
)
def test_a_misspelt_group_is_told(group: str, told: list[str]) -> None:
    with entries_of((group, NAME, needs_a_block)):
        assert [each.partition(" is ")[2] for each in misspelt_groups()] == told


def test_a_broken_plugin_holds_up_only_the_pods_that_it_is_asked_about() -> None:
    def fails_for_large(state: Any, pod: Any, rows: Any) -> Any:
        if pod.request.total["cpu"] > 2000:
            raise KeyError("boop")
        return np.full(count(rows), 50)

    broken = built(plugin(scores=fails_for_large))
    dispatcher = Dispatcher({"bayplan": Profile("bayplan", default_profile().filters, ((broken, 1),))})
    dispatcher.state.set_node(node("n1", {"cpu": 64, "memory": "64Gi", "pods": 10}))
    for name, cpu in (("large", 4), ("larger", 4), ("small", 1)):
        dispatcher.set_pod(simple_pod({"cpu": cpu}, name, schedulerName="bayplan"), 0.0)
    found = [dispatcher.decide(1.0) for _ in range(3)]
    reason = f"bayplan.plugins: \"{NAME}\" of package squad-pkg failed in scores: KeyError: 'boop'; "
    for refused in found[:2]:
        assert isinstance(refused, Unschedulable)
        assert (refused.reason, refused.invalid) == (f"{reason}report it to that package", True)
    assert isinstance(found[2], Bind)
    dispatcher.state.set_node(node("n2", {"cpu": 64, "memory": "64Gi", "pods": 10}))
    dispatcher.wake(2.0)


def test_a_broken_plugin_is_no_bug_of_bayplan() -> None:
    broken = built(plugin(scores=raises))
    profile = Profile("bayplan", default_profile().filters, ((broken, 1),))
    with pytest.raises(BrokenExtension):
        schedule_one(STATE, simple_pod({"cpu": 1}), profile, ClassAnswers(STATE))
