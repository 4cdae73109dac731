"""Fingerprints: what something was made from, so that it can say what changed.

Programs, results of tests and pages each keep one beside what was made. A
fingerprint has named parts, such as ``program`` or ``libraries``; what was
made is stale as soon as one of them is another, and that one says why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

_LENGTH = 16  # letters of the hash of a part


def digest(*parts: str | bytes) -> str:
    """Return one hash of some parts, which may not flow into each other."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(hashlib.sha256(data).digest())
    return found.hexdigest()[:_LENGTH]


@dataclass(frozen=True)
class Fingerprint:
    """A hash of each part that something was made from, by its name."""

    parts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Mapping[str, str | bytes]) -> Fingerprint:
        """Return the fingerprint of parts, given what they hold."""
        return cls({name: digest(each) for name, each in parts.items()})

    @classmethod
    def read(cls, value: object) -> Fingerprint:
        """Return what JSON has kept; nothing of what is no fingerprint."""
        if not isinstance(value, dict):
            return cls()
        return cls({str(name): str(each) for name, each in value.items()})

    def changes_since(self, before: Fingerprint) -> list[str]:
        """Return which parts are other than before, new or gone; sorted."""
        names = self.parts.keys() | before.parts.keys()
        return sorted(
            name
            for name in names
            if self.parts.get(name) != before.parts.get(name)
        )
