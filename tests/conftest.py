"""Settings shared by all tests: Hypothesis explores freely on a desk and repeats itself in CI."""

import os

from hypothesis import settings

# No deadline: on a busy machine a slow example says nothing about the code.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
