"""The claims of docs/data/tables_and_text.md."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

READ = ("file", "read", "to-tensors")
WORDS = (*READ, "vocabulary")
MODEL = (*WORDS, "model", "fit")
LEARNED = (*MODEL, "learned", "pulls")
SHOWN = (*READ, "error-of", "objects", "frames")
SCALER = """\
__import__("sklearn.preprocessing").preprocessing.StandardScaler()"""
SPLITS = pytest.mark.parametrize("seed", [1], ids="split {}".format)


def split_by(snippet, seed):
    """Let another seed split the passengers."""
    return snippet.edit("manual_seed(8)", f"manual_seed({seed})")


# Do this


def test_tensors_have_no_gaps(snippet):
    run = after(snippet, *READ)

    assert len(run.table) == 1309
    numbers, codes = run.to_tensors(run.train)
    assert numbers.shape == (1000, 5)
    assert numbers.mean(0).abs().max() < 1e-5
    known = torch.tensor(run.train["age"].notna().to_numpy())
    assert numbers[known, 1].std() == pytest.approx(1, abs=1e-5)
    for rows in (run.train, run.valid, run.valid.iloc[[0]]):
        numbers, codes = run.to_tensors(rows)
        assert numbers.dtype == torch.float32
        assert codes.dtype == torch.int64
        assert not numbers.isnan().any()
        decks = rows["deck"].tolist()
        assert codes.tolist() == [run.decks.get(deck, 0) for deck in decks]
        ages = torch.tensor(rows["age"].tolist())
        scaled = (ages - run.mean["age"]) / run.std["age"]
        torch.testing.assert_close(numbers[:, 1], scaled.nan_to_num(0.0))
    assert sorted(run.decks.values()) == list(range(1, len(run.decks) + 1))


@SPLITS
def test_tensors_have_no_gaps__also_of(snippet, seed):
    test_tensors_have_no_gaps(split_by(snippet, seed))


def test_tensors_have_no_gaps__also_of_a_deck_that_training_lacks(snippet):
    run = after(snippet, *READ, "deck-t")

    assert "T" not in run.decks
    assert run.looked_up == [run.decks["B"], 0, 0]
    rows = run.valid[run.valid["deck"] == "T"]
    assert len(rows) == 1
    assert run.to_tensors(rows)[1].tolist() == [0]


def test_tensors_have_no_gaps__also_after_a_download(snippet, monkeypatch):
    table = after(snippet, *READ).table
    frame = table.drop(columns="deck").astype({"survived": "category"})

    def fetch_openml(*_, **__):
        return SimpleNamespace(frame=frame)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    without = snippet.edit("id_40945", "id_nowhere").only(*READ)
    run = without.after("to-tensors")
    assert run.file is None
    assert run.table.equals(table)


@edits(
    ("/ std).fillna(0)", "/ std)"),
    (
        "gaps that are filled before scaling",
        "((rows[numeric] - mean) / std).fillna(0)",
        "(rows[numeric].fillna(0) - mean) / std",
    ),
    ('scaled.to_numpy("float32")', "scaled.to_numpy()"),
    (
        'numbers, torch.tensor(codes.to_numpy("int64"))',
        "numbers, torch.tensor(codes.to_numpy())",
    ),
    ("the variance", "train[numeric].std()", "train[numeric].var()"),
    (
        "statistics of the whole table",
        "train[numeric].mean()",
        "table[numeric].mean()",
    ),
    ("codes from 0", "enumerate(known, start=1)", "enumerate(known)"),
)
def test_tensors_have_no_gaps__but_not_with(snippet, old, new, fails):
    """A gap stays or becomes a newborn, the numbers are not scaled, or the
    dtype is another.
    """
    fails(test_tensors_have_no_gaps, snippet.edit(old, new))


def test_it_learns_who_survived(snippet):
    run = after(snippet, *LEARNED)

    seen, unseen = set(run.train.index), set(run.valid.index)
    assert seen & unseen == set()
    assert len(seen) == 1000
    assert len(unseen) == 309
    names, codes = run.table["name"], run.vocabulary
    words = [word for name in names[run.order[:1000]] for word in name.split()]
    assert words.count("Mr.") > 5
    assert sorted(codes.values()) == list(range(len(codes)))
    assert (codes["<pad>"], codes["<unk>"]) == (0, 1)
    counts = run.counts
    assert {word for word in counts if counts[word] >= 5} == set(codes) - {
        "<pad>",
        "<unk>",
    }
    mr, new = run.encode("Mr. Nobody-at-all")[[0, 1]].tolist()
    assert (mr, new) == (codes["mr"], 1)
    survived = torch.tensor(run.valid["survived"].tolist()) == 1
    with torch.no_grad():
        answers = run.model(*run.inputs(run.valid)) > 0
    assert torch.equal(run.right, answers == survived)
    assert run.right.float().mean() > 0.7
    assert survived.float().mean() < 0.45


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_it_learns_who_survived__also_from(snippet, seed):
    run = after(snippet, *MODEL)
    model = run.fit(run.train, seed)
    with torch.no_grad():
        answers = model(*run.inputs(run.valid)) > 0
    assert (answers == run.labels(run.valid)).float().mean() > 0.7
    torch.manual_seed(seed)
    begun = run.Survival().deck.weight
    with torch.no_grad():
        assert (model.deck.weight - begun).abs().max() < 5


@SPLITS
def test_it_learns_who_survived__also_of_other_passengers(snippet, seed):
    test_it_learns_who_survived(split_by(snippet, seed))


@edits(
    ("no training", "lr=0.05", "lr=0.0"),
    (
        "labels of others",
        'rows["survived"].to_numpy("float32")',
        'rows["survived"].to_numpy("float32")[::-1].copy()',
    ),
    ("rarer words", "count >= 5", "count >= 4"),
    (
        "words that are spelled backward",
        "vocabulary.get(word, 1) for word in split",
        "vocabulary.get(word[::-1], 1) for word in split",
    ),
)
def test_it_learns_who_survived__but_not_with(snippet, old, new, fails):
    """There is nothing to be learned, or nobody to learn it, or the words have
    other numbers.
    """
    fails(test_it_learns_who_survived, snippet.edit(old, new))


# How it works


def test_raw_columns_spoil_the_loss(snippet, loss_after=None):
    run = after(snippet, *MODEL, "by-hand", "raw")

    assert (round(run.age, 1), round(run.center, 1)) == (19.0, 30.1)
    below = (run.center - run.age) / run.spread
    assert round(below, 2) == 0.77
    assert run.to_tensors(run.train)[0][0, 1] == pytest.approx(-below)
    assert int(run.train["fare"].max()) == 512
    assert run.raw.shape == (1000, 5)
    assert not run.raw.isnan().any()
    known = torch.tensor(run.train["fare"].notna().to_numpy())
    fares = torch.tensor(run.train["fare"].to_numpy("float32"))
    assert torch.equal(run.raw[known, 2], fares[known])
    scaled, _ = run.to_tensors(run.train)
    if loss_after is None:
        assert run.loss_scaled == run.loss_after(scaled)
        assert run.loss_raw == run.loss_after(run.raw)
        assert run.loss_scaled < 0.65
        assert run.loss_raw > 2 * run.loss_scaled
    else:
        assert loss_after(run.raw) > 2 * loss_after(scaled)


def losses(run, make_optimizer, seed):
    """Return what trains a layer, and gives the loss that it ends with."""

    def loss_after(numbers):
        torch.manual_seed(seed)
        layer = nn.Linear(5, 1)
        optimizer = make_optimizer(layer.parameters())
        for _ in range(100):
            loss = F.binary_cross_entropy_with_logits(
                layer(numbers)[:, 0], run.labels(run.train)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    return loss_after


@pytest.mark.parametrize(
    ("seed", "rate"),
    [(1, 0.05), (2, 0.1), (3, 0.2)],
    ids=["a rate of 0.05", "a rate of 0.1", "a rate of 0.2"],
)
def test_raw_columns_spoil_the_loss__also_with(snippet, seed, rate):
    run = after(snippet, *MODEL, "raw")
    loss_after = losses(run, lambda each: optim.SGD(each, rate), seed)
    assert loss_after(run.raw) > 2 * loss_after(run.to_tensors(run.train)[0])


@edits(
    (
        "scaled columns",
        "train[numeric].fillna(mean)",
        "((train[numeric] - mean) / std).fillna(0)",
    ),
    ("no steps", "steps=100", "steps=1"),
)
def test_raw_columns_spoil_the_loss__but_not_with(snippet, old, new, fails):
    """The columns are scaled already, or the loss is that of the start."""
    fails(test_raw_columns_spoil_the_loss, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("make", "rate"),
    [(optim.Adam, 0.01), (optim.SGD, 0.01), (optim.SGD, 0.001)],
    ids=["Adam", "a rate of 0.01", "a rate of 0.001"],
)
def test_raw_columns_spoil_the_loss__ends_with(snippet, make, rate, fails):
    """Adam scales its steps weight by weight, and a small rate of SGD keeps
    them small.
    """
    run = after(snippet, *MODEL, "raw")
    loss_after = losses(run, lambda each: make(each, rate), 0)
    fails(test_raw_columns_spoil_the_loss, snippet, loss_after)


def test_a_lookup_is_a_product(snippet):
    untrained = snippet.edit("steps=60", "steps=1")
    run = after(untrained, *MODEL, "learned", "lookup")

    table = run.model.deck.weight
    assert run.codes.tolist() == [run.decks["C"], 0, run.decks["A"]]
    assert run.one_hot.shape == (3, 8)
    assert run.one_hot.sum(dim=1).tolist() == [1, 1, 1]
    for row, code in zip(run.product, run.codes.tolist(), strict=True):
        assert torch.equal(row, table[code])
    assert torch.equal(run.product, run.model.deck(run.codes))


@pytest.mark.parametrize("size", [1, 3, 50], ids="{} codes".format)
def test_a_lookup_is_a_product__also_of(size):
    torch.manual_seed(0)
    embedding = nn.Embedding(50, 7)
    codes = torch.randint(50, (size,))
    one_hot = F.one_hot(codes, 50).float()
    torch.testing.assert_close(one_hot @ embedding.weight, embedding(codes))


def test_a_lookup_is_a_product__ends_beside_nan(snippet, fails):
    """A `nan` in any row of the table spoils each product, since 0 times `nan`
    is `nan`.
    """
    old = "codes = torch.tensor([decks"
    new = f"model.deck.weight.data[7] = torch.nan\n{old}"
    fails(test_a_lookup_is_a_product, snippet.edit(old, new))


@edits(
    ("codes, num_classes", "codes.flip(0), num_classes"),
    ("one_hot @ model.deck.weight", "2 * one_hot @ model.deck.weight"),
    ("a table of its own", "model.deck.weight\n", "torch.ones(8, 4)\n"),
)
def test_a_lookup_is_a_product__but_not_with(snippet, old, new, fails):
    """Other codes, numbers or tables give other rows."""
    fails(test_a_lookup_is_a_product, snippet.edit(old, new))


def test_titles_pull_the_score(snippet):
    run = after(snippet, *LEARNED)

    weight, rows = run.model.head.weight[0], run.model.words.weight
    assert [*run.pull_of] == ["mr", "mrs", "miss", "master"]
    for word, pull in run.pull_of.items():
        row = rows[run.vocabulary[word]]
        assert pull == pytest.approx((row @ weight[9:]).item(), rel=1e-4)
    numbers, codes = torch.zeros(1, 5), torch.zeros(1, dtype=torch.int64)
    with torch.no_grad():  # a pull is what a name of one word adds
        one, two = (
            run.model(numbers, codes, run.pad([word]))
            for word in ("mr", "mrs")
        )
    apart = run.pull_of["mr"] - run.pull_of["mrs"]
    assert (one - two).item() == pytest.approx(apart, rel=1e-3)
    assert run.pull_of["mr"] < -1
    assert run.pull_of["mrs"] > 1


@SPLITS
def test_titles_pull_the_score__also_of(snippet, seed):
    test_titles_pull_the_score(split_by(snippet, seed))


@edits(
    ("no training", "lr=0.05", "lr=0.0"),
    (
        "labels that say who died",
        'rows["survived"].to_numpy("float32")',
        '1 - rows["survived"].to_numpy("float32")',
    ),
    ("weights of numbers", "head.weight[0, -8:]", "head.weight[0, :8]"),
)
def test_titles_pull_the_score__but_not_with(snippet, old, new, fails):
    """Titles that nobody learned pull nowhere, or the labels are reversed."""
    fails(test_titles_pull_the_score, snippet.edit(old, new))


def test_a_bag_skips_padding(snippet):
    run = after(snippet, *WORDS, "mean")

    words = run.encode(run.valid["name"].iloc[0])
    assert len(words) > 1
    assert (words > 0).all()
    assert run.short.tolist() == [words.tolist()]
    assert run.long.tolist() == [words.tolist() + [0] * 6]
    expected = run.embedding.weight[words].mean(0)
    for batch in (run.short, run.long):
        torch.testing.assert_close(run.bag(batch)[0], expected.detach())
    counted = run.embedding(run.long).mean(1)[0]
    share = len(words) / (len(words) + 6)
    torch.testing.assert_close(counted, expected * share)


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_a_bag_skips_padding__also_with_mode(mode):
    torch.manual_seed(0)
    bag = nn.EmbeddingBag(9, 4, mode=mode, padding_idx=0)
    nn.init.normal_(bag.weight)  # the padding row, too
    texts = torch.randint(1, 9, (3, 5))
    for position in (0, 1):
        padded = F.pad(texts, (7, 0) if position else (0, 7))
        torch.testing.assert_close(bag(padded), bag(texts))


@edits(
    (
        "no padding_idx",
        "embedding.weight, padding_idx=0)",
        "embedding.weight)",
    ),
    ("another padding_idx", "weight, padding_idx=0", "weight, padding_idx=1"),
    (
        "padded with a word",
        "F.pad(short, (0, 6))",
        "F.pad(short, (0, 6), value=2)",
    ),
)
def test_a_bag_skips_padding__but_not_with(snippet, old, new, fails):
    """The bag takes the padding for a word."""
    fails(test_a_bag_skips_padding, snippet.edit(old, new))


# What goes wrong


def test_text_makes_objects(snippet, texts=None):
    run = after(snippet, *SHOWN)
    if texts is not None:
        columns = run.pd.DataFrame({"age": texts})
        assert columns.to_numpy().dtype == object
        with pytest.raises(ValueError, match="could not convert string"):
            columns.to_numpy("float32")
        return

    said = "TypeError: can't convert np.ndarray of type numpy.object_"
    assert run.in_objects.startswith(said)
    value = run.mixed["sex"].iloc[0]
    said = f"ValueError: could not convert string to float: '{value}'"
    assert run.in_float32 == said


@pytest.mark.parametrize("text", ["C85", "", "1,234"], ids=repr)
def test_text_makes_objects__also_for(snippet, text):
    run = after(snippet, *SHOWN)
    mixed = run.pd.DataFrame({"fare": [1.5, 2.5], "what": [text, "x"]})
    assert mixed.to_numpy().dtype == object
    with pytest.raises(TypeError, match=r"numpy\.object_"):
        torch.tensor(mixed.to_numpy())
    with pytest.raises(ValueError, match=f"to float: '{text}'"):
        mixed.to_numpy("float32")


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_text_makes_objects__also_as_bool_does_beside(snippet, dtype):
    run = after(snippet, *SHOWN)
    dummies = run.pd.get_dummies(run.table["sex"], dtype=bool)
    columns = dummies.assign(number=run.table["pclass"].astype(dtype))
    with pytest.raises(TypeError, match=r"numpy\.object_"):
        torch.tensor(columns.to_numpy())
    numbers = torch.tensor(columns.to_numpy("float32"))
    assert numbers[:, 2].tolist() == run.table["pclass"].tolist()
    assert numbers[:, :2].sum(dim=1).tolist() == [1] * len(numbers)


@edits(
    ('train[["age", "sex"]]', 'train[["age", "fare"]]'),
    (
        "torch.tensor, mixed.to_numpy()",
        "torch.tensor, mixed[['age']].to_numpy()",
    ),
)
def test_text_makes_objects__but_not(snippet, old, new, fails):
    """Columns of numbers make an array of numbers."""
    fails(test_text_makes_objects, snippet.edit(old, new))


def test_text_makes_objects__ends_for_digits(snippet, fails):
    """A text that is a number, such as "27", is converted."""
    fails(test_text_makes_objects, snippet, ["27", "3.5"])


def test_a_filtered_column_raises(snippet, column=None):
    run = after(snippet, *SHOWN)

    said = "ValueError: could not determine the shape of object type '{}'"
    assert run.from_frame == said.format("DataFrame")
    assert run.from_filtered == said.format("Series")
    assert run.from_dropped == "KeyError: 15"
    assert run.from_numpy == "TypeError: expected np.ndarray (got Series)"
    assert torch.tensor(run.adults.to_numpy()).min() > 40
    if column is not None:
        said = run.error_of(torch.tensor, column)
        assert said == run.from_filtered or said.startswith("KeyError: ")


@pytest.mark.parametrize("what", ["age", "fare", "pclass"])
def test_a_filtered_column_raises__also_for(snippet, what):
    run = after(snippet, *SHOWN)
    said = "could not determine the shape of object type"
    parts = run.train, run.valid, run.table.iloc[1:], run.table.drop(index=9)
    for rows in parts:
        with pytest.raises((ValueError, KeyError), match=rf"{said}|^\d+$"):
            torch.tensor(rows[what])
        with pytest.raises(ValueError, match=said):
            torch.tensor(rows[[what]])


def test_a_filtered_column_raises__ends_with_numbered_columns(snippet, fails):
    """A DataFrame whose columns are numbered from 0 raises another error, such
    as `not a sequence`.
    """
    columns = after(snippet, *SHOWN).pd.DataFrame([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(TypeError):
        torch.tensor(columns)
    fails(test_a_filtered_column_raises, snippet, columns)


def test_a_filtered_column_raises__ends_with_text(snippet, fails):
    """A column of text raises `too many dimensions 'str'`."""
    names = after(snippet, *SHOWN).table["name"].drop(index=9)
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        torch.tensor(names)
    fails(test_a_filtered_column_raises, snippet, names)


@edits(
    ("torch.tensor, adults)", "torch.tensor, adults.to_numpy())"),
    (
        'torch.tensor, table["age"].dropna())',
        'torch.tensor, table["age"].dropna().to_numpy())',
    ),
    (
        'torch.tensor, table[["age", "fare"]])',
        'torch.tensor, table[["age", "fare"]].to_numpy())',
    ),
)
def test_a_filtered_column_raises__but_not(snippet, old, new, fails):
    """An array has no labels."""
    fails(test_a_filtered_column_raises, snippet.edit(old, new))


def test_a_filtered_column_raises__ends_with_labels_from_0(snippet, fails):
    """A whole column, with labels from 0 to n - 1, becomes a tensor."""
    column = after(snippet, *SHOWN).table["age"]
    fails(test_a_filtered_column_raises, snippet, column)


def test_a_gap_becomes_nan(snippet, values=None):
    run = after(snippet, *MODEL, "gap")
    if values is not None:
        with no_error():
            run.pd.DataFrame({"a": values(run.pd)}).to_numpy("float32")
        return

    missing = run.train["age"].isna().to_numpy()
    assert run.ages[:, 0].isnan().tolist() == missing.tolist()
    assert missing.sum() == 186
    assert math.isnan(run.loss.item())
    assert math.isnan(run.layer.weight.item())
    missing = torch.tensor(run.train["deck"].isna().to_numpy())
    assert run.floats.isnan().tolist() == missing.tolist()
    codes = run.floats.long()
    assert set(codes[~missing].tolist()) == set(run.decks.values())
    assert set(codes[missing].tolist()) & set(run.decks.values()) == set()


@pytest.mark.parametrize("dtype", ["float64", "Int64", "Float64", "boolean"])
def test_a_gap_becomes_nan__also_in_a_column_of(snippet, dtype):
    run = after(snippet, *MODEL, "gap")
    columns = run.pd.DataFrame({"a": [1, None, 0]}).astype(dtype)
    found = torch.tensor(columns.to_numpy("float32"))
    assert found[:, 0].isnan().tolist() == [False, True, False]
    assert found[::2, 0].tolist() == [1, 0]


@pytest.mark.parametrize("gap", [True, False], ids=["a gap", "no gap"])
def test_a_gap_becomes_nan__also_in_nullable_columns_with(snippet, gap):
    frame = after(snippet, *MODEL, "gap").pd.DataFrame
    last = None if gap else 1
    pairs = ("boolean", "Int64"), ("Float64", "boolean"), ("Int64", "Float64")
    for one, other in pairs:
        columns = frame({"a": [1, last], "b": [0, last]})
        columns = columns.astype({"a": one, "b": other})
        assert columns.to_numpy().dtype == object
        numbers = torch.tensor(columns.to_numpy("float32"))
        assert numbers[0].tolist() == [1, 0]
        assert numbers[1].isnan().tolist() == [gap, gap]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32], ids=["int64", "int32"]
)
def test_a_gap_becomes_nan__also_as(dtype):
    for floats in (torch.float32, torch.float64):
        codes = torch.tensor([2.0, math.nan], dtype=floats).to(dtype)
        assert codes[0] == 2
        assert codes.dtype == dtype


def test_a_gap_becomes_nan__also_beside_a_mark(snippet):
    run = after(snippet, *MODEL, "with-flag", "with-flag-checked")
    missing = run.train["age"].isna().tolist()
    assert run.flagged[:, 1].tolist() == missing
    mean = run.flagged[run.flagged[:, 1] == 1, 0]
    assert mean.tolist() == pytest.approx([run.mean["age"]] * len(mean))


def test_a_gap_becomes_nan__ends_in_a_column_of_objects(snippet, fails):
    """A column of objects, such as `DataFrame({"a": [1, pd.NA]})`, raises
    `float() argument must be a string or a real number`.
    """
    fails(test_a_gap_becomes_nan, snippet, lambda pd: [1, pd.NA])


def test_a_gap_becomes_nan__but_not_in_codes_after_filling(snippet, fails):
    """A code of its own stands for each deck that is missing."""
    old = 'train["deck"].map(decks).to_numpy()'
    new = 'train["deck"].map(decks).fillna(0).to_numpy()'
    fails(test_a_gap_becomes_nan, snippet.edit(old, new))


def test_a_gap_becomes_nan__but_not_after_filling(snippet, fails):
    """The mean stands in for each age that is missing."""
    old = 'train[["age"]].to_numpy("float32")'
    new = 'train[["age"]].fillna(mean["age"]).to_numpy("float32")'
    fails(test_a_gap_becomes_nan, snippet.edit(old, new))


CODES = (*READ, "error-of", "minus-one", "in-a-layer")


def test_minus_one_takes_the_last_row(snippet):
    run = after(snippet, *CODES)

    missing = torch.tensor(run.train["deck"].isna().to_numpy())
    assert missing.sum() == 772
    assert (run.codes[missing] == -1).all()
    assert run.known[-1] == "G"
    assert torch.equal(run.taken[missing], run.lost)
    assert len(run.lost) == 772
    assert run.of_deck_g.sum() == 772
    assert torch.equal(run.lost[0], run.rows.weight[run.known.index("G")])


def test_minus_one_takes_the_last_row__also_of_other_tables():
    codes = torch.tensor([-1, 0])
    for table in (torch.eye(3), torch.rand(4, 2)):
        assert torch.equal(table[codes][0], table[-1])
        assert torch.equal(torch.as_tensor(table.numpy()[codes])[0], table[-1])


@edits(("codes = torch.tensor(codes.", "codes = torch.tensor(codes.clip(0)."))
def test_minus_one_takes_the_last_row__but_not(snippet, old, new, fails):
    """Codes from 0 take the rows that they name."""
    fails(test_minus_one_takes_the_last_row, snippet.edit(old, new))


def test_an_embedding_raises(snippet):
    run = after(snippet, *CODES)

    below, beyond, floats = run.in_a_layer
    assert below == beyond == "IndexError: index out of range in self"
    assert floats.startswith("RuntimeError: Expected tensor for argument #1")
    assert "scalar types: Long, Int; but got torch.FloatTensor" in floats
    assert run.too_large.item() == run.rows.num_embeddings


@pytest.mark.parametrize("size", [1, 10], ids="{} rows".format)
def test_an_embedding_raises__also_with(size):
    embedding = nn.Embedding(size, 3)
    for code in (-2, -1, size, size + 1, 10**6):
        with pytest.raises(IndexError, match="index out of range in self"):
            embedding(torch.tensor([0, code]))
    for dtype in (torch.float32, torch.float64, torch.float16):
        with pytest.raises(RuntimeError, match="scalar types: Long, Int"):
            embedding(torch.zeros(2, dtype=dtype))
    for dtype in (torch.int32, torch.int64):
        assert embedding(torch.zeros(2, dtype=dtype)).shape == (2, 3)
    assert nn.Embedding(size + 1, 3)(torch.tensor([size])).shape == (1, 3)


@edits(
    ("torch.tensor([-1])", "torch.tensor([0])"),
    ("torch.tensor([len(known)])", "torch.tensor([len(known) - 1])"),
    ("codes.float())", "codes.clip(0))"),
    ("a larger table", "Embedding(len(known), 4)", "Embedding(999, 4)"),
)
def test_an_embedding_raises__but_not(snippet, old, new, fails):
    """These codes have a row each."""
    fails(test_an_embedding_raises, snippet.edit(old, new))


def test_own_codes_mean_other_decks(snippet, decks=None):
    run = after(snippet, *READ, "own-codes")
    if decks is not None:
        codes = run.pd.Series(decks).astype("category").cat.codes
        assert [run.known[code] for code in codes] != decks
        return

    own = run.own.tolist()
    right = [run.decks[deck] for deck in run.new]
    assert own == [1, 0, 1]
    assert right == [5, 3, 5]
    meant = [run.known[code] for code in own]
    assert set(meant) & set(run.new) == set()


@pytest.mark.parametrize("decks", ["B", "GF", "CBB", "T"])
def test_own_codes_mean_other_decks__also_for(snippet, decks):
    run = after(snippet, *READ, "own-codes")
    codes = run.pd.Series([*decks]).astype("category").cat.codes
    meant = [run.known[code] for code in codes]
    assert meant != [*decks]


@edits(
    (
        "the known decks",
        'new.astype("category")',
        "new.astype(pd.CategoricalDtype(known))",
    ),
    (
        "the model's codes",
        'new.astype("category").cat.codes',
        "new.map(decks)",
    ),
)
def test_own_codes_mean_other_decks__but_not_with(snippet, old, new, fails):
    """With the decks of the training part, the codes mean the same."""
    fails(test_own_codes_mean_other_decks, snippet.edit(old, new))


def test_own_codes_mean_other_decks__ends_with_all_decks(snippet, fails):
    """New rows that have each deck of the training part get the same codes."""
    fails(test_own_codes_mean_other_decks, snippet, [*"GACBFEDA"])


def test_a_lone_row_becomes_nan(snippet):
    run = after(snippet, *READ, "alone")

    assert run.one.shape[0] == 1
    assert not run.one[run.numeric].isna().to_numpy().any()
    assert np.isnan(run.by_itself.to_numpy()).all()
    assert run.by_itself.shape == (1, 5)
    assert (run.by_itself.fillna(0).to_numpy() == 0).all()


@pytest.mark.filterwarnings("ignore")
def test_a_lone_row_becomes_nan__also_with_torch_and_numpy(snippet):
    run = after(snippet, *READ, "alone")
    row = run.one[run.numeric].to_numpy("float32")
    for ddof in (0, 1):
        assert np.isnan((row - row.mean(0)) / row.std(0, ddof=ddof)).all()
        x = torch.tensor(row)
        scaled = (x - x.mean(0)) / x.std(0, correction=ddof)
        assert scaled.isnan().all()


def test_a_lone_row_becomes_nan__ends_with_a_standard_scaler(snippet, fails):
    """scikit-learn's `StandardScaler` makes zeros of a single row at once."""
    old = "(one[numeric] - one[numeric].mean()) / one[numeric].std()"
    new = f"pd.DataFrame({SCALER}.fit_transform(one[numeric]))"
    fails(test_a_lone_row_becomes_nan, snippet.edit(old, new))


@edits(
    (
        "the numbers of training",
        "one[numeric].mean()) / one[numeric].std()",
        "mean) / std",
    ),
    ("nine rows", "valid.iloc[[1]]", "valid.iloc[1:9]"),
)
def test_a_lone_row_becomes_nan__but_not_with(snippet, old, new, fails):
    """There are other rows to compare with."""
    fails(test_a_lone_row_becomes_nan, snippet.edit(old, new))


def test_the_whole_table_leaks(snippet):
    run = after(snippet, *READ, "whole-table")

    changed = (run.typo != run.table["fare"]) & run.table["fare"].notna()
    assert changed.sum() == 1
    [place] = changed[changed].index
    assert place in run.valid.index
    assert place not in run.train.index
    assert len(run.with_typo) == 1000
    assert 0.9 < run.without_typo.std() < 1.2
    assert run.with_typo.std() < 0.1


@pytest.mark.parametrize("column", ["age", "fare", "sibsp"])
def test_the_whole_table_leaks__also_in(snippet, column):
    run = after(snippet, *READ, "whole-table")
    numbers = torch.tensor(run.table[column].to_numpy("float64").copy())
    numbers = numbers[run.order.copy()].nan_to_num(0.0)
    other = numbers.clone()
    other[1000] += 1  # a row of the validation part
    found = {}
    for what, part in {"whole": slice(None), "train": slice(1000)}.items():
        found[what] = [
            (each[:1000] - each[part].mean()) / each[part].std()
            for each in (numbers, other)
        ]
    assert torch.equal(*found["train"])
    assert (found["whole"][0] != found["whole"][1]).all()


@edits(
    (
        "statistics of training",
        "fares.mean()) / fares.std()",
        "fares[train.index].mean()) / fares[train.index].std()",
    ),
    ("no typo", "*= 10_000", "*= 1"),
)
def test_the_whole_table_leaks__but_not_with(snippet, old, new, fails):
    """Nothing of the validation part goes in, or nothing in it changes."""
    fails(test_the_whole_table_leaks, snippet.edit(old, new))


def test_a_constant_column_becomes_nan(snippet, column=None):
    if column is not None:
        scaled = (column - column.mean()) / column.std()
        assert scaled.isnan().all()
        return
    run = after(snippet, *READ, "constant")

    assert run.column.shape == (1000,)
    assert run.column.unique().tolist() == [0]
    assert run.scaled_t.isnan().all()
    assert run.new_column.sum() == 1
    new = run.new_scaled_t[run.new_column == 1]
    assert new.tolist() == [math.inf]


@pytest.mark.parametrize("value", [1.0, -3.0, 100.0], ids="all {}".format)
def test_a_constant_column_becomes_nan__also_for(value):
    for size in (2, 1000):
        column = torch.full((size,), value)
        center, spread = column.mean(), column.std()
        assert ((column - center) / spread).isnan().all()
        assert ((value + 1 - center) / spread).item() == math.inf
        assert ((value - 1 - center) / spread).item() == -math.inf


@edits(
    ("another deck", '(train["deck"] == "T")', '(train["deck"] == "C")'),
    (
        "a small number added",
        "(column - column.mean()) / column.std()",
        "(column - column.mean()) / (column.std() + 1e-6)",
    ),
    (
        "a small number added for new rows",
        "(new_column - column.mean()) / column.std()",
        "(new_column - column.mean()) / (column.std() + 1e-6)",
    ),
)
def test_a_constant_column_becomes_nan__but_not_with(snippet, old, new, fails):
    """The deviation is not 0."""
    fails(test_a_constant_column_becomes_nan, snippet.edit(old, new))


def test_a_constant_column_becomes_nan__ends_with_a_standard_scaler(
    snippet, fails
):
    """scikit-learn's `StandardScaler` divides a constant column by 1."""
    old = "scaled_t = (column - column.mean()) / column.std()"
    scaled = f"{SCALER}.fit_transform(column[:, None])"
    new = f"scaled_t = torch.tensor({scaled})[:, 0]"
    fails(test_a_constant_column_becomes_nan, snippet.edit(old, new))


def test_a_constant_column_becomes_nan__ends_for_a_tenth(snippet, fails):
    """The mean of three numbers 0.1 is rounded, so the column minus its mean
    is not 0.
    """
    column = torch.full((3,), 0.1, dtype=torch.float64)
    fails(test_a_constant_column_becomes_nan, snippet, column)


BACK = (*READ, "error-of", "scaled-back")


def test_scale_back_with_the_targets_own(snippet):
    run = after(snippet, *BACK)
    operand = "non-broadcastable output operand with shape (3,1)"
    assert operand in run.of_scaler
    columns = "operands could not be broadcast together with shapes (3,) (5,)"
    assert columns in run.of_columns
    again = (run.fares - run.mean["fare"]) / run.std["fare"]
    np.testing.assert_allclose(again, run.forecast, atol=1e-6)


@pytest.mark.parametrize("target", range(5), ids="column {}".format)
def test_scale_back_with_the_targets_own__also_for(snippet, target):
    run = after(snippet, *BACK)
    name, rows = run.numeric[target], run.valid[run.numeric].dropna()
    scaled = (rows - run.mean) / run.std
    back = scaled[name] * run.std[name] + run.mean[name]
    np.testing.assert_allclose(back, rows[name], atol=1e-6)
    scaler = run.scaler
    scaled = scaler.transform(rows)[:, target]
    back = scaled * scaler.scale_[target] + scaler.mean_[target]
    np.testing.assert_allclose(back, rows[name], atol=1e-6)


def test_scale_back_with_the_targets_own__also_as_tensors(snippet):
    run = after(snippet, *BACK)
    forecast = torch.tensor(run.forecast)
    mean, std = (
        torch.tensor(each.to_numpy("float32")) for each in (run.mean, run.std)
    )
    with pytest.raises(RuntimeError, match=r"must match the size of tensor b"):
        forecast * std + mean
    for shaped in (forecast, forecast[:, None]):
        fares = shaped * std[2] + mean[2]
        torch.testing.assert_close(
            fares.flatten(), torch.tensor(run.fares).float()
        )


@edits(
    (
        "a scaler of the target alone",
        "fit(train[numeric])",
        'fit(train[["fare"]])',
    ),
    (
        "the numbers of the target alone",
        "std.to_numpy() + mean.to_numpy()",
        'std["fare"] + mean["fare"]',
    ),
    ("another column", '* std["fare"]', '* std["age"]'),
    ("another mean", '+ mean["fare"]\nprint', '+ mean["age"]\nprint'),
)
def test_scale_back_with_the_targets_own__but_not_with(
    snippet, old, new, fails
):
    """Statistics of one column raise nothing; those of another column give
    other numbers.
    """
    fails(test_scale_back_with_the_targets_own, snippet.edit(old, new))


def test_scale_back_with_the_targets_own__ends_with_a_second_axis(
    snippet, fails
):
    """NumPy and torch broadcast forecasts of shape (N, 1) with five columns:
    no error, but five answers for each.
    """
    edited = snippet.edit(
        "lambda: forecast * std.to_numpy()",
        "lambda: forecast[:, None] * std.to_numpy()",
    )
    run = after(edited, *BACK)
    assert run.of_columns == "no error"
    fails(test_scale_back_with_the_targets_own, edited)


def test_scale_back_with_the_targets_own__ends_with_as_many_rows(
    snippet, fails
):
    """As many forecasts as there are columns raise nothing: each is scaled as
    another column.
    """
    edited = snippet.edit("[-0.5, 0.0, 2.0]", "[-0.5, 0.0, 2.0, 1.0, 0.5]")
    run = after(edited, *BACK)
    assert run.of_columns == "no error"
    fails(test_scale_back_with_the_targets_own, edited)


def test_unk_needs_rare_words(snippet):
    run = after(snippet, *WORDS, "untrained")

    assert set(run.every) == {"<pad>", "<unk>", *run.counts}
    assert sorted(run.every.values()) == list(range(len(run.every)))
    assert run.gradient_of_unk(run.every) == 0
    rare = sum(count for count in run.counts.values() if count < 5)
    assert run.gradient_of_unk(run.vocabulary) == rare > 0
    new = [word for word in run.words if word not in run.counts]
    assert run.unknown == len(new) > len(run.words) / 10


@pytest.mark.parametrize(
    "make",
    [optim.SGD, optim.Adam, optim.RMSprop],
    ids=lambda make: make.__name__,
)
def test_unk_needs_rare_words__also_with(snippet, make):
    run = after(snippet, *WORDS, "untrained")
    torch.manual_seed(0)
    embedding = nn.Embedding(len(run.every), 4)
    begun = embedding.weight.detach().clone()
    optimizer = make(embedding.parameters(), lr=0.1)
    codes = torch.tensor([run.every[word] for word in run.counts])
    for _ in range(3):
        optimizer.zero_grad()
        embedding(codes).pow(2).sum().backward()
        optimizer.step()
    assert torch.equal(embedding.weight[1], begun[1])
    assert (embedding.weight[2:] != begun[2:]).any(dim=1).all()


@edits(
    (
        "rare words left out",
        "enumerate(counts, start=2)}\n\n\ndef",
        "enumerate(frequent, start=2)}\n\n\ndef",
    ),
)
def test_unk_needs_rare_words__but_not_with(snippet, old, new, fails):
    """The words that have no number are `<unk>` in training."""
    fails(test_unk_needs_rare_words, snippet.edit(old, new))


def test_rows_move_without_a_gradient(snippet, adamw=None):
    run = after(snippet, *WORDS, "moved")

    codes = run.vocabulary
    now = {codes["mr"], codes["william"]}
    earlier = {codes["miss"], codes["mary"]}
    assert len(now | earlier) == 4
    everything = set(codes.values())
    expected = {
        "SGD": now,
        "SGD, momentum": now | earlier,
        "Adam": now | earlier,
        "AdamW": everything,
        "SparseAdam": now,
    }
    found = dict(run.rows_moved)
    if adamw is not None:
        found["AdamW"] = run.moved(adamw)
    found = {
        name: set(rows.nonzero()[:, 0].tolist())
        for name, rows in found.items()
    }
    assert found == expected


MOVES = {
    "Adagrad": (optim.Adagrad, "now"),
    "RMSprop": (optim.RMSprop, "now"),
    "NAdam": (optim.NAdam, "earlier"),
    "RAdam": (optim.RAdam, "earlier"),
    "Adamax": (optim.Adamax, "earlier"),
    "Adam with weight decay": (
        lambda rows: optim.Adam(rows, weight_decay=0.01),
        "all",
    ),
    "SGD with weight decay": (
        lambda rows: optim.SGD(rows, 0.1, weight_decay=0.01),
        "all",
    ),
}


@pytest.mark.parametrize(("make", "reach"), MOVES.values(), ids=MOVES)
def test_rows_move_without_a_gradient__also_with(snippet, make, reach):
    run = after(snippet, *WORDS, "moved")
    rows = run.moved(make)
    words = {"mr": True, "miss": reach != "now", "mrs": reach == "all"}
    found = {word: rows[run.vocabulary[word]].item() for word in words}
    assert found == words


def test_rows_move_without_a_gradient__also_where_adam_refuses(snippet):
    run = after(snippet, *WORDS, "error-of", "moved", "refused")
    said = "does not support sparse gradients"  # of Adam, or of AdamW
    assert run.refused.startswith("RuntimeError: Adam")
    assert said in run.refused
    with pytest.raises(RuntimeError, match=said):
        run.moved(optim.Adam, sparse=True)


def test_rows_move_without_a_gradient__also_with_sparse_sgd(snippet):
    run = after(snippet, *WORDS, "moved")
    words = [run.vocabulary[word] for word in ("mr", "miss", "mrs")]
    plain = run.moved(lambda rows: optim.SGD(rows, 0.1), sparse=True)
    assert plain[words].tolist() == [True, False, False]


@edits(
    (
        '"SGD": moved(lambda rows: optim.SGD(rows, 0.1))',
        '"SGD": moved(optim.Adam)',
    ),
    ("0.1, momentum=0.9", "0.1, momentum=0.0"),
    ('"Adam": moved(optim.Adam)', '"Adam": moved(optim.RMSprop)'),
    ("moved(optim.AdamW)", "moved(optim.Adam)"),
    ("moved(optim.SparseAdam, sparse=True)", "moved(optim.Adam)"),
)
def test_rows_move_without_a_gradient__but_not(snippet, old, new, fails):
    """Another optimizer moves other rows."""
    fails(test_rows_move_without_a_gradient, snippet.edit(old, new))


def test_rows_move_without_a_gradient__ends_without_decay(snippet, fails):
    """AdamW with `weight_decay=0` leaves rows alone that no batch has used."""

    def adamw(rows):
        return optim.AdamW(rows, weight_decay=0)

    fails(test_rows_move_without_a_gradient, snippet, adamw)


def test_a_filled_padding_row_decays(snippet):
    run = after(snippet, *WORDS, "padding-row")

    assert run.embedding.padding_idx == 0
    assert (run.pad(run.valid["name"][:8]) == 0).any()
    assert run.filled > 0.5
    assert run.gradient == 0
    assert run.embedding.weight.grad[1:].any()
    assert run.decayed == pytest.approx(run.filled * 0.999**100, rel=1e-3)
    assert 0.895 < 0.999**100 < 0.905


def from_pretrained(rows):
    """Make a layer of rows that somebody has trained."""
    return nn.Embedding.from_pretrained(rows, freeze=False, padding_idx=0)


def bag(rows):
    """Make a layer that takes the mean of such rows."""
    return nn.EmbeddingBag.from_pretrained(rows, freeze=False, padding_idx=0)


def loaded(rows):
    """Load rows into a new layer."""
    layer = nn.Embedding(*rows.shape, padding_idx=0)
    layer.load_state_dict({"weight": rows})
    return layer


def assigned(rows):
    """Give a new layer a weight of one's own."""
    layer = nn.Embedding(*rows.shape, padding_idx=0)
    layer.weight = nn.Parameter(rows)
    return layer


def drawn(rows):
    """Initialize a new layer once more."""
    layer = nn.Embedding(*rows.shape, padding_idx=0)
    assert not layer.weight[0].any()
    nn.init.uniform_(layer.weight)
    return layer


@pytest.mark.parametrize(
    "fill",
    [from_pretrained, loaded, assigned, drawn, bag],
    ids=[
        "from_pretrained",
        "load_state_dict",
        "a new parameter",
        "uniform_",
        "from_pretrained of an EmbeddingBag",
    ],
)
def test_a_filled_padding_row_decays__also_after(fill):
    torch.manual_seed(0)
    layer = fill(torch.rand(6, 3) + 0.5)
    begun = layer.weight[0].detach().clone()
    assert begun.all()
    optimizer = optim.AdamW(layer.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        layer(torch.tensor([[0, 1, 2]])).sum().backward()
        assert not layer.weight.grad[0].any()
        optimizer.step()
    torch.testing.assert_close(layer.weight[0].detach(), begun * 0.99**10)


@edits(
    ("no initialization", "nn.init.normal_(embedding.weight)\n", "\n"),
    ("Adam in its place", "optim.AdamW(emb", "optim.Adam(emb"),
    ("no padding_idx", "8, padding_idx=0)\nnn.init", "8)\nnn.init"),
)
def test_a_filled_padding_row_decays__but_not_with(snippet, old, new, fails):
    """The row is zero, or stays, or gets a gradient."""
    fails(test_a_filled_padding_row_decays, snippet.edit(old, new))


def test_pretrained_vectors_are_frozen(
    snippet, make=nn.Embedding.from_pretrained, optimizer=optim.SGD
):
    run = after(snippet, *WORDS, "pretrained")
    assert run.vectors.shape == (len(run.vocabulary), 8)
    assert torch.equal(run.kept.weight, run.vectors)
    assert torch.equal(run.learning.weight, run.vectors)
    assert not run.kept.weight.requires_grad
    assert run.learning.weight.requires_grad

    rows = torch.arange(15.0).view(5, 3)
    for options, stays in (({}, True), ({"freeze": False}, False)):
        layer = make(rows.clone(), **options)
        head = nn.Linear(3, 1)
        trained = optimizer([*layer.parameters(), *head.parameters()], lr=0.1)
        head(layer(torch.tensor([[0, 1]]))).square().sum().backward()
        trained.step()
        assert (layer.weight.grad is None) is stays
        assert torch.equal(layer.weight, rows) is stays


def test_pretrained_vectors_are_frozen__also_in_a_bag(snippet):
    make = nn.EmbeddingBag.from_pretrained
    test_pretrained_vectors_are_frozen(snippet, make)


@pytest.mark.parametrize("optimizer", [optim.Adam, optim.AdamW])
def test_pretrained_vectors_are_frozen__also_with(snippet, optimizer):
    make = nn.Embedding.from_pretrained
    test_pretrained_vectors_are_frozen(snippet, make, optimizer)


@edits(
    ("by default", "vectors, freeze=False", "vectors"),
    (
        "a new layer",
        "kept = nn.Embedding.from_pretrained(vectors)",
        "kept = nn.Embedding(*vectors.shape)",
    ),
    ("not frozen", "_pretrained(vectors)", "_pretrained(vectors, False)"),
)
def test_pretrained_vectors_are_frozen__but_not(snippet, old, new, fails):
    """Without `freeze=False`, both stay; the other edits make both learn."""
    fails(test_pretrained_vectors_are_frozen, snippet.edit(old, new))


def test_pretrained_vectors_are_frozen__ends_after_unfreezing(snippet, fails):
    """`requires_grad_()` of the layer or its model lets the rows learn."""

    def unfrozen(rows, **options):
        return nn.Embedding.from_pretrained(rows, **options).requires_grad_()

    fails(test_pretrained_vectors_are_frozen, snippet, unfrozen)
