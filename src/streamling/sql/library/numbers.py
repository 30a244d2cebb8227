"""Numbers."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from streamling.sql import decimals
from streamling.sql.fragments import Args, UnsupportedSql, fill, type_of
from streamling.sql.library.declaration import Function, Rewrite, like

_DOUBLE, _BOOL, _LONG = pa.float64(), pa.bool_(), pa.int64()

#: 2⁵³: from here on every double is an integer, and Spark's BIGINT results would end at 2⁶³
_WHOLE = "abs({0}) >= 9007199254740992D"
#: 93 steps are enough for 64 bits; decimals because the smallest BIGINT has no positive counterpart
_EUCLID = (
    "aggregate(sequence(1, 93), struct(abs(CAST({0} AS DECIMAL(20, 0))) AS a, abs(CAST({1} AS DECIMAL(20, 0))) AS b),"
    " (__s, __i) -> if(__s.b = 0, __s, struct(__s.b AS a, CAST(__s.a % __s.b AS DECIMAL(20, 0)) AS b)), __s -> __s.a)"
)
_LCM = f"CAST(abs(CAST({{0}} DIV {_EUCLID} AS DECIMAL(19, 0)) * CAST({{1}} AS DECIMAL(19, 0))) AS BIGINT)"
_ANGLE = (
    "if({0} = 0 AND ({1} < 0 OR CAST({1} AS STRING) = '-0.0'), if(CAST({0} AS STRING) = '-0.0', -pi(), pi()),"
    " atan2({0}, {1}))"
)
_ENDLESS, _NAN = "CAST('Infinity' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"
_LOG = f"CASE WHEN {{0}} > 0 THEN {{log}}({{0}}) WHEN {{0}} = 0 THEN -{_ENDLESS} WHEN {{0}} < 0 THEN {_NAN} END"
_SCALED = "CAST(pow(10, -{1}) AS DECIMAL(20, 0))"
_WHOLE_ROUND = (
    f"if({{1}} >= 0, {{0}}, if({{1}} < -18, 0L, CAST(round(CAST({{0}} AS DECIMAL(20, 0)) / {_SCALED}, 0)"
    f" * {_SCALED} AS BIGINT)))"
)


def _is_integer(arg: exp.Expr) -> bool:
    return bool(pa.types.is_integer(type_of(arg) or pa.null()))


def _is_decimal(arg: exp.Expr) -> bool:
    return decimals.is_decimal(type_of(arg))


def _floating(template: str, operands: int = 1) -> Callable[[Args], exp.Expr]:
    """Return a DOUBLE, or a FLOAT if the first ``operands`` arguments all are."""

    def rewrite(args: Args) -> exp.Expr:
        if all(type_of(arg) == pa.float32() for arg in args[:operands]):
            return fill(f"CAST({template} AS FLOAT)", args, pa.float32())
        return fill(template, args, _DOUBLE)

    return rewrite


def _as_before(template: str, args: Args) -> exp.Expr:
    """Return a decimal of the type of the first argument; Spark's result would have other digits."""
    type_ = type_of(args[0])
    assert type_ is not None
    return fill(f"CAST({template} AS DECIMAL({type_.precision}, {type_.scale}))", args, type_)


def _whole(function: str) -> Rewrite:
    """Keep doubles as doubles, even beyond 64 bits; integers become doubles, as in `trunc`."""

    def rewrite(args: Args) -> exp.Expr:
        if _is_integer(args[0]):
            return fill("CAST({0} AS DOUBLE)", args, _DOUBLE)
        if _is_decimal(args[0]):
            return _as_before(f"{function}({{0}})", args)
        # Spark's result is a BIGINT, which has no -0.0
        away = "-1D * floor(-{0})" if function == "ceil" else "CAST(floor({0}) AS DOUBLE)"
        return _floating(
            f"CASE WHEN {_WHOLE} OR {{0}} = 0 THEN {{0}} WHEN {{0}} < 0 THEN {away}"
            f" ELSE CAST({function}({{0}}) AS DOUBLE) END"
        )(args)

    return rewrite


def _check_places(name: str, args: Args) -> None:
    places = [arg.this if isinstance(arg, exp.Neg) else arg for arg in args[1:]]
    if not all(isinstance(place, exp.Literal) for place in places):
        message = f"{name}() of a DECIMAL needs a literal number of decimal places: its type depends on it"
        raise UnsupportedSql(message, f"write {name}(x, 2), or cast x to DOUBLE")


def _round(args: Args) -> exp.Expr:
    """Round by scaling, like DataFusion: 2.675 is a little less than it looks."""
    if _is_integer(args[0]) and len(args) == 1:
        return fill("({0})", args, type_of(args[0]))
    if _is_integer(args[0]):
        return fill(_WHOLE_ROUND, args, type_of(args[0]))
    if _is_decimal(args[0]):
        _check_places("round", args)
        return fill("round({*})", args)
    if len(args) == 1:
        return _floating(f"if({_WHOLE}, {{0}}, sign({{0}}) * round(abs({{0}}), 0))")(args)  # -0.3 becomes -0.0
    return _floating("(sign({0}) * round(abs({0}) * pow(10, {1}), 0) / pow(10, {1}))")(args)


_CUT = f"if({_WHOLE}, {{0}}, sign({{0}}) * floor(abs({{0}})))"


def _trunc(args: Args) -> exp.Expr | None:
    """Truncate numbers; ``trunc(date, 'MM')`` is Spark's."""
    if len(args) == 2 and isinstance(args[1], exp.Literal) and args[1].is_string:
        return None
    if _is_decimal(args[0]):
        _check_places("trunc", args)
        places = ", {1}" if len(args) == 2 else ""
        return _as_before(f"if({{0}} < 0, ceil({{0}}{places}), floor({{0}}{places}))", args)
    if _is_integer(args[0]):
        args = [fill("CAST({0} AS DOUBLE)", args[:1], _DOUBLE), *args[1:]]
    if len(args) == 1:
        return _floating(f"if({{0}} = 0, abs({{0}}), {_CUT})")(args)  # -0.0 becomes 0.0, unlike with decimal places
    scaled = fill("({0} * pow(10, {1}))", args)
    return _floating(f"if({{1}} = 0, {_CUT}, {{2}} / pow(10, {{1}}))")([*args, fill(_CUT, [scaled])])


def _power(args: Args) -> exp.Expr:
    """Translate ``power``: 1 to any power is 1, even to infinity; Java returns NaN."""
    return fill("if({0} = 1 AND {1} IS NOT NULL, 1D, pow({0}, {1}))", args, _DOUBLE)


def _absolute(args: Args) -> exp.Expr:
    if _is_decimal(args[0]):
        return fill("if({0} < 0, {1}, {0})", [args[0], decimals.negated(args[0])], type_of(args[0]))
    return fill("abs({0})", args, type_of(args[0]))


def _negated(args: Args) -> exp.Expr:
    if _is_decimal(args[0]):
        return decimals.negated(args[0])
    return fill("negative({0})", args, type_of(args[0]))


def _logarithm(function: str, value: str = "{0}") -> str:
    """Return a logarithm also for 0 and negative numbers, where Spark returns NULL."""
    return _LOG.replace("{log}", function).replace("{0}", value)


_OVER = f"CASE WHEN {_logarithm('ln')} != 0 THEN {_logarithm('ln', '{1}')} / {_logarithm('ln')} WHEN {{0}} = 1 THEN"
_RATIO = f"{_OVER} {_logarithm('ln', '{1}')} * {_ENDLESS} END"


def _same(name: str, what: str, example: str, spark: str = "", aliases: str = "") -> Function:
    return Function(name, "number", _floating(spark or f"{name}({{0}})"), what, example, None, aliases)


FUNCTIONS = (
    Function("abs", "number", _absolute, "Absolute value.", "abs(-5) = 5", like(0)),
    _same("acos", "Inverse cosine.", "acos(1.0) = 0.0"),
    _same("acosh", "Inverse hyperbolic cosine.", "acosh(1.0) = 0.0"),
    _same("asin", "Inverse sine.", "asin(0.0) = 0.0"),
    _same("asinh", "Inverse hyperbolic sine.", "asinh(0.0) = 0.0"),
    _same("atan", "Inverse tangent.", "atan(0.0) = 0.0"),
    Function("atan2", "number number", _floating(_ANGLE, 2), "Angle of a point, y first.", "atan2(0.0, 1.0) = 0.0"),
    _same("atanh", "Inverse hyperbolic tangent.", "atanh(0.0) = 0.0"),
    _same("cbrt", "Cube root.", "cbrt(27.0) = 3.0"),
    Function("ceil", "number", _whole("ceil"), "Rounds up to an integer.", "ceil(1.2) = 2.0"),
    _same("cos", "Cosine.", "cos(0.0) = 1.0"),
    _same("cosh", "Hyperbolic cosine.", "cosh(0.0) = 1.0"),
    _same("cot", "Cotangent.", "round(cot(0.5), 3) = 1.83"),
    _same("degrees", "Converts radians to degrees.", "degrees(pi()) = 180.0"),
    _same("exp", "e to the power of a number.", "exp(0.0) = 1.0"),
    Function(
        "factorial",
        "int",
        "factorial({0})",
        "Product of the integers up to a number, at most 20.",
        "factorial(5) = 120",
        _LONG,
    ),
    Function("floor", "number", _whole("floor"), "Rounds down to an integer.", "floor(1.8) = 1.0"),
    Function("gcd", "long long", f"CAST({_EUCLID} AS BIGINT)", "Greatest common divisor.", "gcd(12, 18) = 6", _LONG),
    Function(
        "isnan",
        "number",
        "if({0} IS NULL, NULL, isnan({0}))",
        "Whether a double is NaN.",
        "isnan(1.5) = false",
        _BOOL,
    ),
    Function("iszero", "number", "({0} = 0)", "Whether a number is 0 or -0.", "iszero(0.0)", _BOOL),
    Function(
        "lcm",
        "long long",
        f"if({{0}} IS NULL OR {{1}} IS NULL, NULL, if({{0}} = 0 OR {{1}} = 0, 0L, {_LCM}))",
        "Least common multiple.",
        "lcm(4, 6) = 12",
        _LONG,
    ),
    _same("ln", "Natural logarithm.", "ln(1.0) = 0.0", _logarithm("ln")),
    Function(
        "log",
        "number number?",
        (_logarithm("log10"), _RATIO),
        "Logarithm to base 10, or `log(base, number)`.",
        "log(100.0) = 2.0\nlog(2.0, 8.0) = 3.0",
        _DOUBLE,
    ),
    _same("log10", "Logarithm to base 10.", "log10(100.0) = 2.0", _logarithm("log10")),
    _same("log2", "Logarithm to base 2.", "log2(8.0) = 3.0", _logarithm("log2")),
    Function(
        "nanvl",
        "number number",
        _floating("nanvl({0}, {1})", 2),
        "The second if the first is NaN.",
        "nanvl(1.5, 2.5) = 1.5",
    ),
    Function("negative", "number", _negated, "Negates a number, like `-x`.", "negative(5) = -5", like(0)),
    Function("pi", "", "pi()", "π.", "round(pi(), 5) = 3.14159", _DOUBLE),
    Function(
        "power", "number number", _power, "The first to the power of the second.", "power(2, 10) = 1024", None, "pow"
    ),
    _same("radians", "Converts degrees to radians.", "radians(180.0) = pi()"),
    Function(
        "random", "", "rand()", "A random number from 0 up to 1, for every row.", "random() < 1.0", _DOUBLE, "rand"
    ),
    Function(
        "round",
        "number int?",
        _round,
        "Rounds half away from zero, optionally to decimal places.",
        "round(2.5) = 3.0\nround(2.567, 2) = 2.57",
    ),
    _same("signum", "-1, 0 or 1.", "signum(-2.5) = -1.0", "(signum({0}) + 0D)"),  # of -0.0: 0.0
    _same("sin", "Sine.", "sin(0.0) = 0.0"),
    _same("sinh", "Hyperbolic sine.", "sinh(0.0) = 0.0"),
    _same("sqrt", "Square root.", "sqrt(4.0) = 2.0"),
    _same("tan", "Tangent.", "tan(0.0) = 0.0"),
    _same("tanh", "Hyperbolic tangent.", "tanh(0.0) = 0.0"),
    Function(
        "trunc",
        "number int?",
        _trunc,
        "Truncates to an integer, or to decimal places.",
        "trunc(-2.7) = -2.0\ntrunc(2.567, 2) = 2.56",
    ),
)
