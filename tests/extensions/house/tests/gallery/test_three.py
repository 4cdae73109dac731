def test_one_line_is_drawn(snippet):
    assert len(snippet.after("draw").lines) == 1


def test_one_line_is_drawn__but_not_of_two_columns(snippet, fails):
    """Two columns are two lines."""
    fails(
        test_one_line_is_drawn, snippet.edit("[1, 2, 3]", "[[1, 1], [2, 2]]")
    )
