"""What the tests of this chapter share: most of their programs read digits."""

from tests.helpers.digits import digits_are_parsed_once

__all__ = ["digits_are_parsed_once"]
