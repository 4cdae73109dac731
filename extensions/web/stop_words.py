"""Stop words: common words that say nothing about what somebody looks for.

The search ignores them, so its index has none.
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
