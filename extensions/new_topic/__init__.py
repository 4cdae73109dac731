"""A new topic: its page, program and tests, from the smallest whole example.

``python -m extensions.new_topic models/tied_weights`` writes the three files
and says what is left to do. The example is a topic itself, in ``example/``,
and CONTRIBUTING.md shows it. Needs nothing but Python.
"""
