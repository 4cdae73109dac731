"""What every package builds on, and none of it knows Sphinx or torch.

A *topic* such as ``autograd/detach`` names a page, its program and its tests
at once. Files are read and written in one way, which turns whatever is wrong
with one into a ``Problem`` with its path and line. A ``Fingerprint`` says what
something was made from.
"""
