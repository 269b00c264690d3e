"""`bayplan extender` and `extender-config`, as far as they go without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bayplan.cli.program import run


def printed(*words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert run(["bayplan", "extender-config", *words]) == 0
    document = yaml.safe_load(capsys.readouterr().out)
    assert (document["apiVersion"], document["kind"]) == (
        "kubescheduler.config.k8s.io/v1",
        "KubeSchedulerConfiguration",
    )
    (extender,) = document["extenders"]
    return extender  # type: ignore[no-any-return]


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_default_configuration_lets_the_extender_filter_score_preempt_and_bind(
    output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed("-o", output, capsys=capsys) == {
        "urlPrefix": "http://127.0.0.1:10365",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": 12,
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": "5s",
    }


def test_flags_end_up_in_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--ca-file", "ca.crt", "--cert-file", "tls.crt", "--key-file", "tls.key"]
    words = ["--url-prefix", "https://e:1", "--ignorable", "--no-bind", "--no-preempt", "--weight", "3", *files]
    assert printed(*words, "--no-node-cache-capable", "--http-timeout", "1m", capsys=capsys) == {
        "urlPrefix": "https://e:1",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 3,
        "nodeCacheCapable": False,
        "ignorable": True,
        "httpTimeout": "1m",
        "enableHTTPS": True,
        "tlsConfig": {"caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key"},
    }


def test_the_weight_follows_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- pluginConfig: [{name: NodeResourceTopologyMatch, args: {scoringStrategy: {type: MostAllocated}}}]\n"
        "  plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch, weight: 7}]}}\n"
    )
    assert printed("--config", str(file), capsys=capsys)["weight"] == 7


def test_a_timeout_without_a_unit_gets_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("--http-timeout", "1", capsys=capsys)["httpTimeout"] == "1s"


@pytest.mark.parametrize(
    "words, said",
    [
        (["extender-config", "--url-prefix", "e:1"], '--url-prefix: "e:1" is not a URL'),
        (["extender-config", "--cert-file", "x"], "--cert-file and --key-file belong together"),
        (["extender-config", "--ca-file", "x"], "need an https --url-prefix"),
        (["extender-config", "--http-timeout", "soon"], '--http-timeout: "soon" is no duration'),
        (["extender-config", "--http-timeout", "0"], "--http-timeout: must be more than 0s"),
        (["extender", "--address", "nowhere"], "--address: 'nowhere' is not an address"),
        (["extender", "--address", ":10365"], "--address: other machines need authentication"),
        (["extender", "--tls-cert-file", "x"], "belong together"),
        (["extender", "--client-ca-file", "x"], "--client-ca-file needs --tls-cert-file"),
        (["extender", "--wait-for-bind", "nan"], "--wait-for-bind"),
        (["extender", "--max-request-size", "0"], "is no size"),
    ],
)
def test_wrong_arguments_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bayplan", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
