"""Tables that a program made as HTML, as Markdown."""

from extensions.notebooks.html_tables import table_in

HTML = """<style scoped>.dataframe tbody tr th { color: red }</style>
<table><tr><th></th><th>a|b</th></tr>
<tr><th>one</th><td>x &lt; <b>y</b></td></tr><tr><td>two</td></tr></table>"""


def test_a_table_keeps_its_rows_and_cells():
    assert table_in(HTML).splitlines() == [
        r"|  | a\|b |",
        "| --- | --- |",
        "| one | x < y |",
        "| two |  |",
    ]


def test_other_html_is_no_table():
    assert table_in("<p>Words.</p>") == ""
