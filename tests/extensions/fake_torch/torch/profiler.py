"""What a measurement imports, and no test here calls."""

from torch import Nothing

ProfilerActivity = profile = Nothing()
