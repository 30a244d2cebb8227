"""Lists of numbers: sums, products and vectors."""

from __future__ import annotations

import pyarrow as pa

from streamling.sql.library.declaration import Function

_DOUBLE, _DOUBLES = pa.float64(), pa.list_(pa.float64())
_KNOWN = "exists({0}, __e -> __e IS NOT NULL)"
_SOME = "filter({0}, __e -> __e IS NOT NULL)"
_DOT = "aggregate(zip_with({0}, {1}, (__a, __b) -> CAST(__a AS DOUBLE) * __b), 0D, (__s, __e) -> __s + __e)"
_NORM = "sqrt(aggregate({0}, 0D, (__s, __e) -> __s + CAST(__e AS DOUBLE) * __e))"
_NORM_1 = _NORM.replace("{0}", "{1}")


def _folded(start: str, step: str) -> str:
    """Compute with doubles, like DataFusion."""
    return f"if({_KNOWN}, aggregate({_SOME}, {start}, (__s, __e) -> __s {step} CAST(__e AS DOUBLE)), NULL)"


def _pairs(name: str, operator: str, what: str, example: str) -> Function:
    spark = f"zip_with({{0}}, {{1}}, (__a, __b) -> CAST(__a AS DOUBLE) {operator} __b)"
    return Function(f"array_{name}", "numbers numbers", spark, what, example, _DOUBLES, f"list_{name}")


FUNCTIONS = (
    _pairs("add", "+", "Sums of corresponding elements.", "array_add([1.5], [2.0]) = [3.5]"),
    Function(
        "array_avg",
        "numbers",
        f"if({_KNOWN}, aggregate({_SOME}, 0D, (__s, __e) -> __s + __e) / size({_SOME}), NULL)",
        "Mean of the elements.",
        "array_avg([1.0, 2.0]) = 1.5",
        _DOUBLE,
        "list_avg",
    ),
    Function(
        "array_distance",
        "numbers numbers",
        "sqrt(aggregate(zip_with({0}, {1}, (__a, __b) -> pow(CAST(__a AS DOUBLE) - __b, 2)), 0D,"
        " (__s, __e) -> __s + __e))",
        "Distance between two points.",
        "array_distance([0.0, 0.0], [3.0, 4.0]) = 5.0",
        _DOUBLE,
        "list_distance",
    ),
    Function(
        "array_normalize",
        "numbers",
        f"if(size({{0}}) = 0, transform({{0}}, __e -> CAST(__e AS DOUBLE)), if({_NORM} = 0 OR {_NORM} IS NULL, NULL,"
        f" transform({{0}}, __e -> CAST(__e AS DOUBLE) / {_NORM})))",
        "The vector scaled to length 1.",
        "array_normalize([3.0, 4.0]) = [0.6, 0.8]",
        _DOUBLES,
        "list_normalize",
    ),
    Function(
        "array_product",
        "numbers",
        _folded("1D", "*"),
        "Product of the elements.",
        "array_product([2.0, 3.0]) = 6.0",
        _DOUBLE,
        "list_product",
    ),
    Function(
        "array_scale",
        "numbers number",
        "if({1} IS NULL, NULL, transform({0}, __e -> CAST(__e AS DOUBLE) * {1}))",
        "Multiplies every element by a number.",
        "array_scale([1.5], 2.0) = [3.0]",
        _DOUBLES,
        "list_scale",
    ),
    _pairs("subtract", "-", "Differences of corresponding elements.", "array_subtract([3.0], [1.0]) = [2.0]"),
    Function(
        "array_sum",
        "numbers",
        _folded("0D", "+"),
        "Sum of the elements, ignoring NULLs.",
        "array_sum([1, 2, NULL]) = 3",
        _DOUBLE,
        "list_sum",
    ),
    Function(
        "cosine_distance",
        "numbers numbers",
        f"if({_NORM} = 0 OR {_NORM_1} = 0, NULL, 1 - {_DOT} / ({_NORM} * {_NORM_1}))",
        "1 minus the cosine of the angle between two vectors.",
        "cosine_distance([1.0, 0.0], [0.0, 1.0]) = 1.0",
        _DOUBLE,
    ),
    Function(
        "inner_product",
        "numbers numbers",
        _DOT,
        "Sum of the products of corresponding elements.",
        "inner_product([1.0, 2.0], [3.0, 4.0]) = 11.0",
        _DOUBLE,
        "dot_product",
    ),
)
