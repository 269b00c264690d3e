"""Become another program that the kernel ends together with its parent: `python die_with_parent.py PROGRAM
ARGUMENT...`.

A test run that is killed cleans up nothing, so the programs it started must not outlive it. The wish is made here,
between fork and exec and in a process of its own, because running Python in a forked child of a process with threads
is not safe. It is tied to the *thread* that started the program, which is why `process.py` keeps one for that.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
