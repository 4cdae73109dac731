def test_word_is_one(snippet):
    assert snippet.after("start").word == "one"


def test_word_is_one__but_not_of_another(snippet, fails):
    """Another word is not one."""
    fails(test_word_is_one, snippet.edit('"one"', '"other"'))
