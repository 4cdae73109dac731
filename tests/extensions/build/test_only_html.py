"""The one builder of the house."""

import pytest


@pytest.mark.parametrize("builder", ["dirhtml", "text"])
def test_another_builder_ends_before_a_program_runs(unbuilt, stopped, builder):
    assert stopped("-b", builder) == [
        f"{unbuilt}/docs/conf.py:1: ERROR: the house cannot be built as"
        f" {builder}: build html, with -b html or without -b [house]"
    ]
    assert not (unbuilt / "docs/code").exists()


@pytest.mark.parametrize("builder", ["dummy", "linkcheck"])
def test_a_builder_that_writes_no_page_may_run(build, builder):
    assert not build(builder).warning.getvalue()
