from __future__ import annotations

from tests.fuzz.budget import FIRST_SEED, rounds


def test_there_is_a_round_even_without_time(capsys):
    numbers = [generator.random() for generator in rounds(seconds=0)]
    assert len(numbers) == 1
    assert f"STREAMLING_TEST_SEED={FIRST_SEED}" in capsys.readouterr().out


def test_each_round_differs_and_repeats():
    first = [generator.random() for generator, _ in zip(rounds(seconds=5), range(3), strict=False)]
    again = [generator.random() for generator, _ in zip(rounds(seconds=5), range(3), strict=False)]
    assert first == again
    assert len(set(first)) == 3
