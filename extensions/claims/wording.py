"""What the panel of a claim says of its tests, made of their names and cases.

The name of a test continues the sentence of its claim: "… but not with a cut",
"… also for GRU and LSTM". Code stands in backticks.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from extensions.claims.cases import columns_of, named, without
from extensions.claims.long_lists import in_few_words
from extensions.claims.values import listed, with_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from extensions.evidence.parsed_tests import Failure, Test

# What a name ends in whose cases say the rest, if they say anything.
_ENDS = (
    "a|about|after|an|are|as|at|because|before|between|by|for|from|has|if"
    "|in|into|is|it|like|of|on|one|or|over|takes|than|that|the|through|times"
    "|to|under|unless|when|where|while|with|without"
)
_OPEN = re.compile(rf"(.*\b({_ENDS})|also|but|but not|ends)")
_CONDITION = re.compile(r".*\b(not|if|unless|when|where|while)\b.*")
# What says only that there is a change.
_VAGUE = re.compile(
    "but( not)?( (otherwise|so|another|another way|other|others))?"
)
# How a line ends whose cases say nothing.
UNNAMED = re.compile(r"in (another case|\d+ other cases)$")
# What says something only beside the change itself.
_NAMELESS = re.compile(
    "(but|but not|ends)?( ?after (this change|one of these changes))?"
)
_LONGEST_CODE = 72  # letters of a line of code that stands in a sentence
# Letters of a line, of which more is folded: of a sentence, and of a list.
_LONGEST = 120
_LONGEST_LIST = 80
# Names that a function of Python cannot have in its own.
_PROPER = """
    Adam AdamW BatchNorm BCE CPU CUDA Dropout GPU GRU HDF5 LayerNorm Linear
    LMDB LSTM NumPy PyTorch ReLU RNN SGD TFRecord
"""
_NAMES = {each.lower(): each for each in _PROPER.split()}


def words_of(test: Test, text: str) -> str:
    """Return what the name of a test adds to that of its claim's test.

    Names that the text of the claim holds as code are code here, too.
    """
    words = " ".join(_NAMES.get(each, each) for each in test.words.split())
    for name in sorted(set(re.findall(r"[a-z]+(?:_[a-z]+)+", text))):
        phrase = name.replace("_", " ")
        words = re.sub(rf"(?<![\w`]){phrase}(?![\w`])", f"`{name}`", words)
    return with_types(words)


def scope(words: str, cases: Sequence[str]) -> str:
    """Return on what a test of a claim ran, given its name and its cases."""
    parts = _parts(words, cases, _word_between(words))
    if not parts:
        if not any(cases) or not _OPEN.fullmatch(words):
            return words
        return _without_end(words, _in_other_cases(len(cases)))
    return _joined(words, parts)


def _word_between(words: str) -> str:
    """Return what stands between the last two values behind some words."""
    return "or" if _CONDITION.fullmatch(words) else "and"


def _joined(words: str, parts: Sequence[str]) -> str:
    """Return some words with what cases say behind them."""
    if not words:
        return "; ".join(parts)
    is_phrase = _OPEN.fullmatch(words) or re.match(r"[-+]?\d", parts[0])
    return f"{words}{' ' if is_phrase else ': '}{'; '.join(parts)}"


def scope_in_short(words: str, cases: Sequence[str]) -> str:
    """Return the same as ``scope``, with its longest lists in few words."""
    line = scope(words, cases)
    columns = [each for each in columns_of(cases) if each.said]
    parts = dict(enumerate(_parts(words, cases, _word_between(words))))
    longest = sorted(parts, key=lambda each: -len(parts[each]))
    before = words
    for place, has_examples in product(longest, [True, False]):
        if len(line) <= _LONGEST_LIST:
            break
        column, start = columns[place], "" if place else words
        said = named(column, words)
        start, short = in_few_words(start, column, said, has_examples)
        if short:
            parts[place] = short
            before = before if place else start
            line = _joined(before, [*parts.values()])
    return line


def cases_in_words(cases: Sequence[str]) -> str:
    """Return on which cases the test of a claim itself ran, if it has some."""
    return "; ".join(_parts("", cases, "and")) if len(cases) > 1 else ""


def _parts(words: str, cases: Sequence[str], word: str) -> list[str]:
    """Return what cases say behind some words, a part for each argument."""
    columns = [each for each in columns_of(cases) if each.said]
    return [listed(named(each, words), word) for each in columns]


def caption(words: str, failures: Sequence[Failure]) -> str:
    """Return under what a claim is false, or where it ends."""
    number = len(failures)
    is_vague = _VAGUE.fullmatch(words)
    has_cases = any(each.parameters for each in failures)
    if not is_vague and not (has_cases and _OPEN.fullmatch(words)):
        return words
    if not is_vague or words in {"but", "but not"}:
        cases = [without(each.parameters, each.edit) for each in failures]
        is_one_of = words == "ends" or _CONDITION.fullmatch(words)
        if parts := _parts(words, cases, "or" if is_one_of else "and"):
            return f"{words} {'; '.join(parts)}"
    if failures[0].edit:
        return _without_end(words, _after_changes(failures))
    if failures[0].given and number == 1:
        return _without_end(words, f"given `{failures[0].given}`")
    return _without_end(words, _in_other_cases(number))


def _after_changes(failures: Sequence[Failure]) -> str:
    """Return with what change something is false; of several, the first."""
    first, others = failures[0].edit, len(failures) - 1
    if said := _first_change(first):
        many = "another change" if others == 1 else f"{others} other changes"
        return f"{said}, or after {many}" if others else said
    return "after one of these changes" if others else "after this change"


def _first_change(edit: str) -> str:
    """Return what line an edit adds or leaves out first; "" for a long one."""
    lines = edit.splitlines()
    old = [_code_in(each) for each in lines if each.startswith("-")]
    new = [_code_in(each) for each in lines if each.startswith("+")]
    added = [each for each in new if each not in old]
    gone = [each for each in old if each not in new]
    word, code = ("with", added) if added else ("without", gone)
    if not code or "`" in code[0] or len(code[0]) > _LONGEST_CODE:
        return ""
    return f"{word} `{code[0]}`"


def _code_in(line: str) -> str:
    """Return the code of a line of an edit, without sign and comment."""
    return line[1:].partition("  #")[0].strip().rstrip(",")


def telling(lines: Iterable[str]) -> list[str]:
    """Return the lines that say something without the change itself."""
    return [each for each in lines if not _NAMELESS.fullmatch(each)]


def _in_other_cases(number: int) -> str:
    """Return how many cases there are that have no name."""
    return f"in {number} other cases" if number > 1 else "in another case"


def _without_end(words: str, end: str) -> str:
    """Return the word with which a name begins, and another end."""
    start = re.match("also|but|ends", words)
    said = start[0] if start else words
    return f"{'but not' if said == 'but' else said} {end}"


def name_of(failure: Failure) -> str:
    """Return what the case of a counter-example says; empty for none."""
    case = without(failure.parameters, failure.edit)
    return "; ".join(_parts("", [case], "and"))


def shown_and_hidden(text: str, most: int = _LONGEST) -> tuple[str, str]:
    """Return the part of a line that is always shown, and the rest.

    A list is cut between two of its values.
    """
    if len(text) <= most:
        return text, ""
    places = [
        match.end()
        for match in re.finditer(r"[,;] (?=(?:[^`]*`[^`]*`)*[^`]*$)", text)
        if match.end() <= most
    ]
    cut = places[-1] if places else len(text)
    return text[:cut].strip(" ,;"), text[cut:]


def scope_shown_and_hidden(line: str) -> tuple[str, str]:
    """Return of a line of a scope what is always shown, and the rest."""
    return shown_and_hidden(line, _LONGEST_LIST)


def change_in_words(failure: Failure) -> str:
    """Return what an edit does: it adds lines, leaves some out, or both."""
    lines = failure.edit.splitlines()
    these = "this line" if len(lines) == 1 else "these lines"
    signs = {line[:1] for line in lines}
    if signs == {"-"}:
        return f"Without {these}"
    if signs == {"+"}:
        return f"With {these} added"
    return "With this change" if lines else ""
