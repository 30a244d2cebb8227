"""The expression of -k."""

import pytest

from streamling.dev.pipeline_tests.select import parse_selection
from streamling.errors import StreamlingError

NAME = "orders/pipeline.test.yaml::a refund of a large order"


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("refund", True),
        ("REFUND", True),
        ("invoice", False),
        ("refund and large", True),
        ("refund and not large", False),
        ("invoice or orders/", True),
        ("not (invoice or slow) and refund", True),
        ('"large order"', True),
        ('"order large"', False),
    ],
)
def test_words_are_combined(expression, matches):
    assert parse_selection(expression)(NAME) is matches


@pytest.mark.parametrize("expression", ["and", "a b", "(a", "a )", "not", '"a', "a or"])
def test_an_invalid_expression_is_an_error(expression):
    with pytest.raises(StreamlingError, match="-k is invalid"):
        parse_selection(expression)
