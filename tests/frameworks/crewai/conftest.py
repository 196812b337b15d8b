"""CrewAI reports its use to its maker unless that is switched off."""

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"
