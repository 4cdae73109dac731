"""The changes of meaning that one node of a syntax tree allows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy

Node = ast.expr | ast.stmt
Change = tuple[str, Node, ast.AST]  # its kind, a node, what takes its place

# What takes the place of an operator, or of a reduction by its name.
_PAIRS = """Eq:NotEq NotEq:Eq Lt:GtE GtE:Lt Gt:LtE LtE:Gt Is:IsNot IsNot:Is
Add:Sub Sub:Add Mult:Div Div:Mult Pow:Mult FloorDiv:Div Mod:Mult MatMult:Mult
BitAnd:BitOr BitOr:BitAnd sum:mean mean:sum min:max max:min any:all all:any
argmin:argmax argmax:argmin amin:amax amax:amin"""
_SWAPPED = dict(pair.split(":") for pair in _PAIRS.split())
_SWAPPED |= {"In": "NotIn", "NotIn": "In"}  # codespell:ignore notin
# Calls without which there is only an error, or what compares the same.
_NEEDED_CALLS = """enumerate float getattr int items keys len list
named_parameters parameters partition range round split str super tqdm tuple
type values zip"""
# Keywords of which no claim speaks: among them, what a terminal shows.
MEANINGLESS_KEYWORDS = {None, "lr", "strict", "desc", "disable", "leave"}
MEANINGLESS_KEYWORDS |= {"description", "formatter_class", "help", "metavar"}
# Calls that take dimensions.
_OF_DIMENSIONS = """argmax argmin cat cumsum flatten max mean min permute size
softmax squeeze stack sum transpose unsqueeze"""
# What may be given to a call and is more than what is typed there.
_WORTH_KEEPING = (
    "Attribute BinOp Call Compare IfExp ListComp Name Subscript UnaryOp"
)
# What is nothing without the call that it holds.
_HOLDERS = ast.Expr | ast.withitem | ast.FunctionDef | ast.ClassDef


def changes(
    node: ast.AST, holder: ast.AST, imported: set[str]
) -> Iterator[Change]:
    """Yield the changes of a node, given what holds it."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"))]):
            pass  # mostly new: without it, there is only an error
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "delete statement", node, ast.Pass()
        case ast.AugAssign() | ast.Delete() | ast.Expr() | ast.Raise():
            yield "delete statement", node, ast.Pass()
        case ast.Return(value=ast.expr() as value):
            yield "return None", value, ast.Constant(None)
        case ast.FunctionDef(decorator_list=decorators):
            for each in decorators:
                yield "drop decorator", each, ast.Name("(lambda it: it)")
        case ast.With(items=[*_, ast.withitem(context_expr=last)]):
            if not any(item.optional_vars for item in node.items):
                head = ast.copy_location(ast.Name("if True"), node)
                head.end_lineno = last.end_lineno
                head.end_col_offset = last.end_col_offset
                yield "leave with", head, head
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield from _negated_conditions(test)
        case ast.comprehension(ifs=tests):
            yield from _negated_conditions(*tests)
    yield from _changes_of_value(node)
    if isinstance(node, ast.Call):
        yield from _changes_of_call(node, holder, imported)


def _negated_conditions(*tests: ast.expr) -> Iterator[Change]:
    """Yield each condition that is no comparison: that is swapped."""
    for test in tests:
        if not isinstance(test, ast.Compare | ast.Constant):
            yield "negate condition", test, ast.UnaryOp(ast.Not(), test)


def _changes_of_value(node: ast.AST) -> Iterator[Change]:
    """Yield what is flipped, swapped, or one more or less."""
    match node:
        case ast.Constant(value=bool(value)):
            yield "flip", node, ast.Constant(not value)
        case ast.Subscript(slice=place) | ast.BinOp(op=ast.Mod(), right=place):
            yield from _changed_numbers(place)
        case ast.keyword(arg="dim" | "dims" | "axis", value=place):
            yield from _changed_numbers(place)
        case ast.Call(func=ast.Attribute(attr=name), args=places):
            if name in _OF_DIMENSIONS.split():
                yield from _changed_numbers(*places)
        case ast.Compare(left=left, ops=ops, comparators=others):
            yield from _changed_numbers(left, *others)
            for index, each in enumerate(ops):
                new = [
                    *ops[:index],
                    _swapped_operator(each),
                    *ops[index + 1 :],
                ]
                yield "swap comparison", node, _copy_with(node, ops=new)
    match node:
        case ast.BinOp(left, op, right) | ast.AugAssign(left, op, right):
            if not (_is_text(left) or _is_text(right)):
                yield (
                    "swap operator",
                    node,
                    _copy_with(node, op=_swapped_operator(op)),
                )


def _changed_numbers(*places: ast.AST) -> Iterator[Change]:
    """Yield each number that says which: a place, a dimension, a bound.

    Not those that say how many, or how much: sizes, steps and examples.
    """
    for place in places:
        match place:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int(old) | float(old)):
                new = old - 1 if old > 0 else old + 1
                yield "change number", place, ast.Constant(new)
            case ast.UnaryOp() | ast.Slice() | ast.Tuple():
                yield from _changed_numbers(*ast.iter_child_nodes(place))


def _changes_of_call(
    node: ast.Call, holder: ast.AST, imported: set[str]
) -> Iterator[Change]:
    """Yield a call left out, without a keyword, or of another reduction."""
    func, full = node.func, ast.unparse(node.func)
    name = full.rpartition(".")[2]
    is_ours = "(" in full or full.partition(".")[0] not in imported
    given = " ".join(type(each).__name__ for each in node.args)
    if name not in _NEEDED_CALLS.split() and not isinstance(holder, _HOLDERS):
        if isinstance(func, ast.Attribute) and is_ours:
            yield f"drop {name}()", node, func.value
        elif given in _WORTH_KEEPING.split():
            yield f"drop {full}()", node, node.args[0]
    for each in node.keywords:
        if each.arg not in MEANINGLESS_KEYWORDS:
            left = [keyword for keyword in node.keywords if keyword != each]
            yield (
                f"drop keyword {each.arg}",
                node,
                _copy_with(node, keywords=left),
            )
    # What backward starts from may have any scale.
    from_here = getattr(holder, "attr", "") == "backward"
    scale = full == "sum" or (from_here and name in {"sum", "mean"})
    if name in _SWAPPED and not scale:
        new = _copy_with(func, attr=_SWAPPED[name], id=_SWAPPED[name])
        yield f"swap {name}", node, _copy_with(node, func=new)


def _copy_with(node: ast.AST, **fields: object) -> ast.AST:
    """Return a node with other fields."""
    node = copy(node)
    vars(node).update(fields)
    return node


def _swapped_operator(op: ast.AST) -> ast.AST:
    """Return what takes the place of an operator, or the same."""
    name = type(op).__name__
    new: ast.AST = getattr(ast, _SWAPPED.get(name, name))()
    return new


def _is_text(node: ast.expr) -> bool:
    """Whether a value is typed as a string."""
    return ast.unparse(node).lstrip("f").startswith(("'", '"'))
