"""What is compared with recorded answers is told apart from them. Modules: none of the package."""

import numpy as np
import pytest

from recording import differences, plain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1.0, 1.0 + 2e-6),
        (0, 1e-8),
        ("gap 2.00 here", "gap 2.01 here"),
        ("gap 2", "hat 2"),
        ([1, 2], [1]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (True, 1),
        (None, 0),
        (np.nan, 0.0),
        (1, "1"),
    ],
)
def test_another_value_is_told(old, new):
    assert differences(plain(old), plain(new), 1e-6, 1e-9)
    assert not differences(plain(old), plain(old), 1e-6, 1e-9)


def test_large_arrays_are_compared_in_every_entry():
    values = np.random.default_rng(0).normal(size=(20, 7))
    one, turned = values.copy(), values[np.r_[:3, 5, 4, 3, 6:20]]
    one[3, 4] += 1e-4
    assert not differences(plain(values), plain(values * (1 + 1e-9)), 1e-6, 1e-9)
    for other in (one, turned, values.T, -values):
        assert differences(plain(values), plain(other), 1e-6, 1e-9)


def test_what_has_no_plain_form_is_refused():
    with pytest.raises(TypeError, match="Turn this into numbers"):
        plain(object())


def test_what_processors_change_is_refused():
    with pytest.raises(TypeError, match=r"Not the same on every processor: \['n_iter'\]"):
        plain({"primal": 1.0, "n_iter": 3})
