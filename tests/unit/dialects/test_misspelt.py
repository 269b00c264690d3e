"""Keys that were meant to be others: how many of them are looked at."""

from __future__ import annotations

import msgspec

from bayplan.dialects.misspelt import MOST_JUDGED, judged
from bayplan.dialects.pod_words import OWN_FAMILY, word_remarks
from tests.builders.objects import simple_pod


def test_of_ten_thousand_misspelt_keys_the_first_are_told() -> None:
    """Finding out what was meant takes a tenth of a millisecond each."""
    keys = {f"bayplan.io/numa-zonez-{number}": "x" for number in range(10_000)}
    pod = simple_pod({"cpu": "1"}, schedulerName="bayplan")
    many = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=keys))
    assert len(word_remarks(many)) <= MOST_JUDGED
    assert judged(["other.io/x", *keys], OWN_FAMILY) == list(keys)[:MOST_JUDGED]
