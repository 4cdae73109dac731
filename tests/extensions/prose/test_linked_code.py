"""Links inside of highlighted code."""

from extensions.prose.torch_uses import linked

HTML = (
    '<pre><span></span><span class="kd">@torch</span>'
    '<span class="o">.</span><span class="n">no_grad</span>() &lt; x</pre>'
)


def test_a_token_is_cut_where_a_link_begins_or_ends():
    assert linked(HTML, [(1, 14, "a?b&c"), (19, 20, "d")]) == (
        '<pre><span></span><span class="kd">@</span>'
        '<a class="api reference external" href="a?b&amp;c">'
        '<span class="kd">torch</span><span class="o">.</span>'
        '<span class="n">no_grad</span></a>() &lt; '
        '<a class="api reference external" href="d">x</a></pre>'
    )


def test_a_link_inside_of_an_emphasized_line_ends_inside_of_it():
    line = '<span class="hll">a<span class="o">.</span>b()\n</span>c'

    assert linked(line, [(2, 3, "b")]) == (
        '<span class="hll">a<span class="o">.</span>'
        '<a class="api reference external" href="b">b</a>()\n</span>c'
    )


def test_without_links_nothing_changes():
    assert linked(HTML, []) == HTML
