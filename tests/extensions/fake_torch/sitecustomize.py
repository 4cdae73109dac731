"""Where claims are tested, Sphinx need not be installed."""

import sys

sys.modules["sphinx"] = None
