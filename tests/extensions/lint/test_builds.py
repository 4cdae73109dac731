"""A house that cannot be read as a whole is not built."""


def test_each_broken_file_is_a_line_and_no_program_runs(unbuilt, stopped):
    page = unbuilt / "docs/part/one.md"
    page.write_bytes(b"# One\n\n\xff\n")
    snippet = unbuilt / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + "word = (\n")

    assert stopped() == [
        f"{snippet}:11: ERROR: '(' was never closed [proven]",
        f"{page}:3: ERROR: not UTF-8 (byte 0xff): save it so [proven]",
    ]
    assert not (unbuilt / "docs/code").exists()
