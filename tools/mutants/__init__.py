"""Mutants: changes of a program that no test of its topic notices.

Other tools mutate functions of packages; these programs are scripts cut into
cells.
"""
