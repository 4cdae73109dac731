"""What every package builds on, and none of it knows Sphinx or torch.

A *topic* such as ``autograd/detach`` names a page, its program and its tests
at once. Files are read and written in one way, which turns whatever is wrong
with one into a :class:`Problem` with its path and line. A
:class:`Fingerprint` says what something was made from.
"""

from __future__ import annotations

from extensions.core.files import Problem, text_of, write
from extensions.core.fingerprint import Fingerprint
from extensions.core.topics import Topic, topics

__all__ = ["Fingerprint", "Problem", "Topic", "text_of", "topics", "write"]
