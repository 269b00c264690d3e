"""What a score is, for every plugin and strategy: a whole number per node, from 0 to 100."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_SCORE = 100
Scores = NDArray[np.int32]
