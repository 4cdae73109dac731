"""Stop words: common words that say nothing about what somebody looks for.

The search ignores them, so its index has none.
"""

_WORDS = """
a about after all am an and any are aren as at be been before between but by
can could did didn do does doesn don during each ever every few for from get
gets had has have having help how i if in into is isn it its just know like
make many me more much my need needs no of on one only onto or our out please
should so some than that the their them then there these they this those to
too up use used uses using vs want was way we were what when where which
while who why will with without won would you your
"""
STOP_WORDS = frozenset(_WORDS.split())

# What stands before so many names of the library that it says nothing beside
# other words.
BEFORE_NAMES = frozenset({"nn", "pytorch", "torch"})
