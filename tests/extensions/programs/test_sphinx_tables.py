"""Tables of pandas."""

import pandas as pd
from docutils import nodes
from extensions.programs.sphinx_figures import plain

ROWS = {"float32": {"bytes": 4}, "float16": {"bytes": 2}}
FRAME = pd.DataFrame.from_dict(ROWS, orient="index")


def test_a_table_loses_its_style_its_border_and_its_empty_header():
    html = plain(FRAME._repr_html_())

    assert "<style" not in html
    assert "style=" not in html
    assert "border=" not in html
    assert "<th></th>" not in html
    assert html.count("<th>") == 3
    assert html.count("<td>") == 3


def test_a_table_keeps_each_of_its_words():
    html = plain(FRAME._repr_html_())

    for word in ("bytes", "float32", "float16", "4", "2"):
        assert f">{word}<" in html


def test_the_table_of_a_page_is_plain(house, build):
    snippet = house / "snippets/part/one.py"
    snippet.write_text(
        snippet.read_text().replace(
            'print(word, "counted")',
            "import pandas as pd\n\n"
            'pd.DataFrame.from_dict({"a": {"b": 1}}, orient="index")',
        )
    )

    app = build()

    raws = app.env.get_doctree("part/one").findall(nodes.raw)
    [table] = [raw.astext() for raw in raws if "<table" in raw.astext()]
    assert '<table class="dataframe">' in table
    assert "<style" not in table
