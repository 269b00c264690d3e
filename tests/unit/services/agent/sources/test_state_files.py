"""The kubelet's own notes, as it writes them, cut off and in old forms."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bayplan.kube.errors import InvalidObject
from bayplan.services.agent.sources.pod_resources import DeviceGroup, MemoryBlock
from bayplan.services.agent.sources.state_files import (
    MemoryAmounts,
    MemoryZone,
    cpu_state_of,
    device_state_of,
    memory_state_of,
)
from tests.unit.services.agent.nodes import GI

CPU_FILE = json.dumps(
    {
        "policyName": "static",
        "defaultCpuSet": "0,4-7",
        "entries": {"uid-a": {"main": "1-2", "init": "3"}},
        "checksum": 1,
    }
).encode()
MEMORY_FILE = json.dumps(
    {
        "policyName": "Static",
        "machineState": {
            "0": {
                "numberOfAssignments": 1,
                "memoryMap": {
                    "memory": {
                        "total": 16 * GI,
                        "systemReserved": 2 * GI,
                        "allocatable": 14 * GI,
                        "reserved": 4 * GI,
                        "free": 10 * GI,
                    }
                },
                "cells": [0, 1],
            }
        },
        "entries": {"uid-a": {"main": [{"numaAffinity": [0, 1], "type": "memory", "size": 4 * GI}]}},
        "checksum": 2,
    }
).encode()
DEVICE_FILE = json.dumps(
    {
        "Data": {
            "PodDeviceEntries": [
                {
                    "PodUID": "uid-a",
                    "ContainerName": "main",
                    "ResourceName": "v/gpu",
                    "DeviceIDs": {"0": ["x"], "-1": ["y"]},
                },
                {"PodUID": "uid-a", "ContainerName": "main", "ResourceName": "v/nic", "DeviceIDs": ["z"]},
            ],
            "RegisteredDevices": {"v/gpu": ["x", "y"]},
        },
        "Checksum": 3,
    }
).encode()


def test_the_cpu_managers_notes() -> None:
    state = cpu_state_of(CPU_FILE, "cpu_manager_state")
    assert (state.policy, state.shared_cpus) == ("static", frozenset({0, 4, 5, 6, 7}))
    assert state.entries == {"uid-a": {"main": (1, 2), "init": (3,)}}


def test_the_memory_managers_notes() -> None:
    state = memory_state_of(MEMORY_FILE, "memory_manager_state")
    assert state.zones == {0: MemoryZone(1, (0, 1), {"memory": MemoryAmounts(14 * GI, 10 * GI)})}
    assert state.entries == {"uid-a": {"main": (MemoryBlock("memory", 4 * GI, (0, 1)),)}}


def test_the_device_managers_checkpoint() -> None:
    state = device_state_of(DEVICE_FILE, "kubelet_internal_checkpoint")
    assert state.entries == {
        "uid-a": {
            "main": (
                DeviceGroup("v/gpu", ("x",), (0,)),
                DeviceGroup("v/gpu", ("y",)),
                DeviceGroup("v/nic", ("z",)),
            )
        }
    }


@pytest.mark.parametrize("read", [cpu_state_of, memory_state_of, device_state_of])
@pytest.mark.parametrize("text", [b"", b'{"policyName": "sta', b"\xff\xfe", b"[]", b'{"entries": 1}'])
def test_a_file_that_is_cut_off_is_named(read: Callable[[bytes, str], object], text: bytes) -> None:
    with pytest.raises(InvalidObject, match=r"^file /var/lib/kubelet/state: "):
        read(text, "/var/lib/kubelet/state")


def test_cpus_that_are_no_list_are_named_with_their_place() -> None:
    text = b'{"policyName": "static", "defaultCpuSet": "0", "entries": {"uid-a": {"main": "one"}}}'
    with pytest.raises(InvalidObject, match=r'file f: entries.uid-a.main: "one": must be a list of CPU ids'):
        cpu_state_of(text, "f")


def test_a_state_file_that_is_nested_without_end_is_unreadable_like_any_other() -> None:
    deep = b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(InvalidObject, match="nested too deeply"):
        cpu_state_of(deep, "cpu_manager_state")
