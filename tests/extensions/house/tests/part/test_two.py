def test_word_is_two(snippet):
    assert snippet.after("start").word == "two"


def test_word_is_two__but_not_of_another(snippet, fails):
    """Another word is not two."""
    fails(test_word_is_two, snippet.edit('"two"', '"other"'))
