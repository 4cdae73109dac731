"""What a failure shows of addresses and folders."""

import pytest

from extensions.evidence.explanations import readable

HERE, THERE = "93896308748800", "140119028805248"
FOLDER = "/tmp/pytest-of-me/pytest-32/popen-gw0/test_a_file3"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"assert {HERE} in []", "assert address A in []"),
        (
            f"assert [{HERE}, {THERE}] == [{THERE}]",
            "assert [address A, address B] == [address B]",
        ),
        (f"assert ({HERE}, 0) != ({HERE}, 0)", "assert (address A, 0)"),
        (
            f"assert {{946891218252...4689121827648}} == {{{HERE}}}",
            "assert {addresses} == {address A}",
        ),
        ("<Held object at 0x7f70428b3380>", "<Held object>"),
        ("[<function test_x.<locals>.length at 0x7f6ff>]", "[length]"),
        ("<function mean at 0x7f6ff677de40>", "mean"),
        ("<built-in method sqrt of type object at 0x7f705c>", "sqrt"),
        (f"'{FOLDER}/mine.py: no'", "'…/mine.py: no'"),
        ("'/tmp/tmpg6mr2hjx/once.lmdb'", "'…/once.lmdb'"),
        ('"/home/me/it/snippets/a/b.py", line 3', '"snippets/a/b.py", line 3'),
    ],
)
def test_what_differs_in_each_run_is_not_shown(text, shown):
    assert readable(text).startswith(shown)


@pytest.mark.parametrize(
    "text",
    [
        "assert 0.30000000000000004 == 0.3",
        "assert [0.9980000257...0000257492065] == [1, 1, 1]",
        "assert 94.93896308748800 == 2",
        "assert 16777217 == 16777216",
        "assert 99999999999999999 == 1",
        "assert 10000000000000 == 1",
        "a / b and 'tests/data/test_batches.py'",
        "torch.ones(2, 3)",
    ],
)
def test_what_a_program_computes_stays(text):
    assert readable(text) == text
