"""A new topic: its page, program and tests, from the smallest whole example.

``python -m extensions.new_topic models/tied_weights`` writes the three files
and says what is left to do. The example is the one that CONTRIBUTING.md shows.
Needs nothing but Python.
"""
