"""How long tests wait for what must happen: one setting for slow machines."""

from __future__ import annotations

import os

#: Seconds until a condition must hold, on a busy machine with two cores; waiting costs time only
#: where a test fails. TEST_PATIENCE multiplies them.
PATIENCE_SECONDS = int(400 * float(os.environ.get("TEST_PATIENCE", "1")))
#: Seconds until a whole demo or campaign must have ended.
WHOLE_RUN_SECONDS = 3 * PATIENCE_SECONDS
