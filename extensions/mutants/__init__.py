"""Mutants: changes of a program that no test of its topic notices.

``python -m extensions.mutants`` changes the meaning of a program bit by bit
and runs the tests. A mutant that survives shows what is tested nowhere. Other
tools mutate functions of packages; these programs are scripts cut into cells.
"""

from __future__ import annotations
