"""Words that stand in every question, and say nothing of its subject.

The search looks for none of them, so its index holds none.
"""

_WORDS = """
a about after all an and any are as at be been before but by can could did
do does during each ever every for from get gets had has have having how i
if in into is it its just like make many me more much my need needs no of on
one only onto or our out should so some than that the their them then there
these they this those to too up use used uses using vs was we were what when
where which while who why will with without would you your
"""
STOP_WORDS = frozenset(_WORDS.split())
