"""The claims of docs/symptoms.md: error texts of the torch installed."""


def says(snippet, name, text):
    assert text in snippet.after("message").said[name]


def test_linear_of_integers(snippet):
    says(snippet, "Linear of whole numbers", "have the same dtype")
    says(
        snippet.edit("nn.Linear(3, 1)", "nn.Linear(3, 1, bias=False)"),
        "Linear of whole numbers",
        "have the same dtype",
    )


def test_linear_of_integers__but_not_floats(snippet, fails):
    edited = snippet.edit(
        "nn.Linear(3, 1)(whole)", "nn.Linear(3, 1)(whole.float())"
    )
    fails(test_linear_of_integers, edited)


def test_mean_of_integers(snippet):
    says(snippet, "mean of whole numbers", "could not infer output dtype")


def test_mean_of_integers__but_not_floats(snippet, fails):
    edited = snippet.edit("whole.mean()", "whole.float().mean()")
    fails(test_mean_of_integers, edited)


def test_product_of_misfits(snippet):
    says(snippet, "a product of 2x3 and 2x3", "shapes cannot be multiplied")


def test_product_of_misfits__but_not_transposed(snippet, fails):
    edited = snippet.edit("floats @ floats", "floats @ floats.T")
    fails(test_product_of_misfits, edited)


def test_sum_of_misfits(snippet):
    says(snippet, "a sum of 3 and 4", "must match the size of tensor")


def test_sum_of_misfits__but_not_one(snippet, fails):
    edited = snippet.edit("torch.ones(4)", "torch.ones(1)")
    fails(test_sum_of_misfits, edited)


def test_batch_of_misfits(snippet):
    says(
        snippet,
        "images of two sizes",
        "stack expects each tensor to be equal size",
    )


def test_batch_of_misfits__but_not_equal_sizes(snippet, fails):
    edited = snippet.edit(
        "default_collate([floats, whole])", "default_collate([floats, floats])"
    )
    fails(test_batch_of_misfits, edited)


def test_beyond_the_classes(snippet):
    says(snippet, "a class that is not there", "is out of bounds")
    says(snippet, "a word that is not there", "index out of range in self")


def test_beyond_the_classes__but_not_within(snippet, fails):
    edited = snippet.edit("torch.tensor([0, 3])", "torch.tensor([0, 2])")
    fails(test_beyond_the_classes, edited)


def test_batch_norm_of_one(snippet):
    says(
        snippet,
        "BatchNorm of one sample",
        "Expected more than 1 value per channel when training",
    )


def test_batch_norm_of_one__but_not_two(snippet, fails):
    edited = snippet.edit(
        "nn.BatchNorm1d(3)(floats[:1])", "nn.BatchNorm1d(3)(floats)"
    )
    fails(test_batch_norm_of_one, edited)


def test_backward_twice(snippet):
    says(
        snippet,
        "backward, and again",
        "Trying to backward through the graph a second time",
    )


def test_backward_twice__but_not_retained(snippet, fails):
    edited = snippet.edit(
        "    loss.backward()\n    loss.backward()",
        "    loss.backward(retain_graph=True)\n    loss.backward()",
    )
    fails(test_backward_twice, edited)


def test_backward_twice__but_not_if_nothing_was_saved(snippet, fails):
    edited = snippet.edit(".exp().sum()", ".sum()")
    fails(test_backward_twice, edited)


def test_changed_in_place(snippet):
    says(
        snippet,
        "backward of a change in place",
        "modified by an inplace operation",
    )


def test_changed_in_place__but_not_a_new_tensor(snippet, fails):
    edited = snippet.edit("powers += 1", "powers = powers + 1")
    fails(test_changed_in_place, edited)


def test_no_graph(snippet):
    says(snippet, "backward without a graph", "does not require grad")


def test_no_graph__but_not_with_one(snippet, fails):
    edited = snippet.edit(
        "floats.sum().backward()", "(floats.sum() * weight[0]).backward()"
    )
    fails(test_no_graph, edited)


def test_not_a_scalar(snippet):
    says(
        snippet,
        "backward of three numbers",
        "grad can be implicitly created only for scalar outputs",
    )


def test_not_a_scalar__but_not_their_sum(snippet, fails):
    edited = snippet.edit(
        "(2 * weight).backward()", "(2 * weight).sum().backward()"
    )
    fails(test_not_a_scalar, edited)


def test_leaf_in_place(snippet):
    says(
        snippet,
        "a parameter changed in place",
        "a leaf Variable that requires grad is being used in an in-place"
        " operation",
    )


def test_leaf_in_place__but_not_detached(snippet, fails):
    edited = snippet.edit("weight.add_(1)", "weight.detach().add_(1)")
    fails(test_leaf_in_place, edited)


def test_numpy_of_a_parameter(snippet):
    says(
        snippet,
        "numpy() of a parameter",
        "Can't call numpy() on Tensor that requires grad",
    )


def test_numpy_of_a_parameter__but_not_detached(snippet, fails):
    edited = snippet.edit("weight.numpy()", "weight.detach().numpy()")
    fails(test_numpy_of_a_parameter, edited)


def test_empty_optimizer(snippet):
    says(
        snippet,
        "an optimizer without parameters",
        "got an empty parameter list",
    )


def test_empty_optimizer__but_not_with_one(snippet, fails):
    edited = snippet.edit("torch.optim.SGD([])", "torch.optim.SGD([weight])")
    fails(test_empty_optimizer, edited)


def test_weights_only(snippet):
    says(
        snippet, "a checkpoint with a NumPy number", "Weights only load failed"
    )


def test_weights_only__but_not_a_python_number(snippet, fails):
    edited = snippet.edit('{"loss": np.float64(1)}', '{"loss": 1.0}')
    fails(test_weights_only, edited)


def test_missing_keys(snippet):
    says(snippet, "the state of another model", "Missing key(s) in state_dict")


def test_missing_keys__but_not_its_own(snippet, fails):
    edited = snippet.edit(
        '{"module.weight": torch.ones(2, 2)}', "nn.Linear(2, 2).state_dict()"
    )
    fails(test_missing_keys, edited)


def test_size_mismatch(snippet):
    says(snippet, "a state of another size", "size mismatch for")


def test_size_mismatch__but_not_its_own(snippet, fails):
    edited = snippet.edit(
        "nn.Linear(3, 2).state_dict()", "nn.Linear(2, 2).state_dict()"
    )
    fails(test_size_mismatch, edited)
