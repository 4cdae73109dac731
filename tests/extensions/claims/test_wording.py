"""What the names of tests say with those of their parameters."""

import functools

import pytest

from extensions.claims.wording import (
    caption,
    cases_in_words,
    change_in_words,
    scope,
    scope_in_short,
    scope_shown_and_hidden,
    shown_and_hidden,
    words_of,
)
from extensions.evidence import parsed_tests
from extensions.evidence.case_names import name_of_value
from extensions.evidence.parsed_tests import Failure


class Model:
    """Something with a name that is an expression."""

    def __repr__(self):
        return "Model(size=3)"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ((2, 3), "(2, 3)"),
        ({"lr": 0.1, "fused": True}, "lr=0.1, fused=True"),
        ({1: "a"}, "{1: 'a'}"),
        (Model(), "Model(size=3)"),
        (lambda: Model().size + 3, "Model().size + 3"),
        (lambda x: x, "x"),
    ],
)
def test_a_value_that_pytest_would_count_has_a_name(value, name):
    assert name_of_value(value) == name


@pytest.mark.parametrize(
    "value",
    [
        *("words", b"bytes", 3, 0.5, 2j, True, None, Model, len),
        *({}, object(), functools.partial(len), [*range(99)], {"a", "b"}),
        (lambda: 1, lambda: 2)[0],
    ],
)
def test_pytest_names_the_others(value):
    assert name_of_value(value) is None


@pytest.mark.parametrize(
    ("words", "cases", "said"),
    [
        ("also where paths join", [""], "also where paths join"),
        ("also with a step between", [""], "also with a step between"),
        ("also for", ["name=GRU", "name=LSTM"], "also for GRU and LSTM"),
        (
            "also in layers",
            ["k=GRU", "k=a cell"],
            "also in layers: GRU and a cell",
        ),
        ("also from", ["seed=1", "seed=2"], "also from seeds 1 and 2"),
        ("also in", ["epoch=1", "epoch=7"], "also in epochs 1 and 7"),
        ("also in", ["batch=1", "batch=7"], "also in batches 1 and 7"),
        (
            "also with",
            ["how={}", "how={'foreach': True}"],
            "also with no options and `foreach=True`",
        ),
        (
            "also from",
            [f"seed={n}" for n in range(5)],
            "also from seeds 0 to 4",
        ),
        ("also from other seeds", ["seed=1"], "also from other seeds 1"),
        (
            "also from other starts",
            ["seed=1"],
            "also from other starts: seed 1",
        ),
        ("also with", ["lr=0.1", "lr=1.0"], "also with `lr` 0.1 and 1.0"),
        (
            "also with",
            ["bias=True", "bias=False"],
            "also with `bias=True` and `False`",
        ),
        ("also with", ["how={'foreach': True}"], "also with `foreach=True`"),
        (
            "also for",
            ["shape=(3,)", "shape=()"],
            "also for shapes `(3,)` and `()`",
        ),
        (
            "also if",
            ["k=tied", "k=frozen in part"],
            "also if tied or frozen in part",
        ),
        (
            "also from",
            ["seed=start 0", "seed=start 2"],
            "also from starts 0 and 2",
        ),
        ("also of", ["n=1 day", "n=7 days"], "also of 1 day and 7 days"),
        ("also of", ["n=2 days", "n=7 days"], "also of 2 and 7 days"),
        (
            "also through",
            [
                f"dtype={a}\nname={b}"
                for a in ("float16", "int8")
                for b in ("cat", "a view")
            ],
            "also through cat and a view; `float16` and `int8`",
        ),
        ("also for", ["count,size=7-8"], "also for `count=7, size=8`"),
        ("also with", ["old,new=LR = 1-LR = 2"], "also with `LR = 2`"),
        (
            "also with",
            ["old,new=nn.ReLU(),-", "old,new=LR = 1-LR = 2"],
            "also with `LR = 2` and without `nn.ReLU()`",
        ),
        (
            "also for",
            ["kind,size=GRU-3", "kind,size=LSTM-3"],
            "also for GRU and LSTM",
        ),
        (
            "also of",
            ["rule,sizes=ij->ji-(2, 3)", "rule,sizes=i,i->-(3,)"],
            "also of `ij->ji` and `i,i->`",
        ),
        (
            "also for",
            [f"count,size={n}-8" for n in (7, 7, 9)],
            "also for `count=7, size=8` and `count=9, size=8`",
        ),
        (
            "also for",
            [f"count,size,gap={n}-8-1" for n in range(3)],
            "also for 3 combinations of count, size and `gap`",
        ),
        (
            "also to",
            ["a,b=int8-bool", "a,b=int8-int16", "a,b=bool-int16"],
            "also to 3 pairs of types",
        ),
        (
            "also for",
            ["of=f(1, 2, 3, 4, 5, 6)", "of=g(1)", f"of=h({'1, ' * 20})"],
            "also for 3 snippets, such as `g(1)`",
        ),
        (
            "also with",
            [f"losses=({n}0000000.0, nan)" for n in range(6)],
            "also with 6 values of `losses`",
        ),
        (
            "also for",
            [f"shapes=({', '.join('9' * n)})" for n in range(4, 9)],
            "also for 5 shapes",
        ),
        (
            "also in",
            ["dtype=torch.int8", "dtype=torch.int16"],
            "also in `int8` and `int16`",
        ),
        ("also of", ["kind=<class 'torch.Adam'>"], "also of Adam"),
        ("also of", ["kind=_Gated", "kind=_Own"], "also of `Gated` and `Own`"),
        ("also for", ["make=make0", "make=make1"], "also in 2 other cases"),
        ("also for", ["=old1"], "also in another case"),
        ("also for", [], "also for"),
        ("also at", ["n=the ends of int64"], "also at the ends of `int64`"),
    ],
)
def test_a_scope_reads_as_a_person_would_say_it(words, cases, said):
    assert scope(words, cases) == said


OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "LBFGS"]
DTYPES = ["float64", "float32", "bfloat16", "float16"]
TENSORS = ["of one element", "transposed", "with gaps", "expanded", "boolean"]


@pytest.mark.parametrize(
    ("words", "cases", "said"),
    [
        (
            "also for",
            [f"name={a}\nrate={b}" for a in OPTIMIZERS for b in (0.125, 2.0)],
            "also for seven optimizers, among them SGD and Adam;"
            " rates 0.125 and 2.0",
        ),
        (
            "also if the tensor is",
            [
                f"tensor={each}"
                for each in (*TENSORS, "requiring grad", "wide")
            ],
            "also for seven kinds of tensor, among them transposed and"
            " expanded",
        ),
        (
            "also where the numbers are not whole numbers: for",
            [f"dtype={each}" for each in DTYPES],
            "also where the numbers are not whole numbers: for four dtypes",
        ),
        (
            "also in",
            [f"hold,held=a {'very ' * n}long name" for n in range(9, 13)],
            "also in four containers",
        ),
        (
            "also for",
            [f"make_model={each} layers" for each in "abcdefghijklmn"],
            "also for 14 kinds of model, among them a layers and b layers",
        ),
        (
            "also by",
            [f"error={each}{'y' * 9}Error" for each in "ABCDEF"],
            f"also by six exceptions, among them A{'y' * 9}Error and"
            f" B{'y' * 9}Error",
        ),
        (
            "also after",
            [f"thing=a thing called {each}" for each in "abcdef"],
            "also after a thing called a, a thing called b, a thing called c,"
            " a thing called d, a thing called e and a thing called f",
        ),
        ("also for", ["name=SGD", "name=Adam"], "also for SGD and Adam"),
    ],
)
def test_a_long_list_is_told_in_few_words(words, cases, said):
    assert scope_in_short(words, cases) == said


def test_the_cases_of_a_claims_own_test_are_told():
    assert cases_in_words(["name=SGD", "name=Adam"]) == "SGD and Adam"
    assert cases_in_words([""]) == ""


def a_failure(words, case="", edit="", given=""):
    return Failure("", words, "", edit, "", given, "", parameters=case)


@pytest.mark.parametrize(
    ("words", "cases", "edit", "said"),
    [
        (
            "but not with a cut",
            ["old,new=a-b"] * 3,
            "-a\n+b",
            "but not with a cut",
        ),
        (
            "but not",
            ["old,new=shuffled", "old,new=sorted"],
            "-a\n+b",
            "but not shuffled or sorted",
        ),
        (
            "but not otherwise",
            ["old,new=f(1)-f(2)"],
            "-f(1)\n+f(2)",
            "but not with `f(2)`",
        ),
        (
            "but not",
            ["old,new=1)-2)"] * 2,
            "-f(1)\n+f(2)",
            "but not with `f(2)`, or after another change",
        ),
        (
            "but not otherwise",
            ["old,new=1)-2)"] * 3,
            "-f(1)  # as before\n-g(1),",
            "but not without `f(1)`, or after 2 other changes",
        ),
        (
            "but not otherwise",
            ["old,new=1)-2)"] * 2,
            f"-f(1)\n+f({'2, ' * 30})",
            "but not after one of these changes",
        ),
        (
            "but not as",
            ["old,new=f(1)-f(2)"],
            "-f(1)\n+f(2)",
            "but not as `f(2)`",
        ),
        (
            "but not for",
            ["name=SGD", "name=Adam"],
            "",
            "but not for SGD or Adam",
        ),
        ("but not for", ["name=name0"], "", "but not in another case"),
        ("but a copy does", [""], "-a", "but a copy does"),
        (
            "but not with a step between",
            [""],
            "",
            "but not with a step between",
        ),
        (
            "ends for",
            ["name=integers", "name=booleans"],
            "",
            "ends for integers and booleans",
        ),
        ("ends", ["n=if full", "n=in part"], "", "ends if full or in part"),
    ],
)
def test_a_caption_says_when_a_claim_is_false(words, cases, edit, said):
    failures = [a_failure(words, case, edit) for case in cases]

    assert caption(words, failures) == said


def test_a_caption_names_an_input_that_has_no_name():
    failure = a_failure("but not", "pair=pair0", given="(2, 3)")

    assert caption("but not", [failure]) == "but not given `(2, 3)`"


def test_names_are_written_as_the_claim_and_their_libraries_do(tmp_path):
    name = "test_a__but_not_in_enable_grad_on_cuda_in_float16"
    test = parsed_tests.tests_of(tmp_path, f"def {name}(): ...\n")[name]

    assert words_of(test, "Inside `enable_grad()`, it is.") == (
        "but not in `enable_grad` on CUDA in `float16`"
    )


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("-a", "Without this line"),
        ("-a\n-b", "Without these lines"),
        ("+a", "With this line added"),
        ("+a\n+b", "With these lines added"),
        ("-a\n+b", "With this change"),
        ("", ""),
    ],
)
def test_a_change_adds_lines_leaves_some_out_or_both(edit, said):
    failure = Failure("", "", "", edit, cell="", given="", said="")
    assert change_in_words(failure) == said


def test_a_long_line_is_cut_between_two_values():
    line = f"also for {'an LSTM, ' * 20}`f(1, 2)` and a GRU"

    shown, hidden = shown_and_hidden(line)

    assert shown.endswith("an LSTM")
    assert len(shown) <= 120
    assert f"{shown}, {hidden}" == line
    assert shown_and_hidden("also for an LSTM") == ("also for an LSTM", "")
    assert len(scope_shown_and_hidden(line)[0]) <= 80


def test_code_is_not_cut():
    line = f"also for `{'f(1, 2), ' * 20}` and others"

    assert shown_and_hidden(line) == (line, "")
