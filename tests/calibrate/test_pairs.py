"""A training set given as a whole is read without its labels; lists and tuples of samples stay what they are."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, TensorType, f32

from zeropoint.calibrate import DataError, samples
from zeropoint.ir.program import Port

X = Port("x", TensorType(f32, [1, 4]))
Y = Port("y", TensorType(f32, [1, 2]))
IDS = Port("ids", TensorType(IntegerType(32), [1, 4]))
ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)
IDENTITIES = np.arange(24, dtype=np.int64).reshape(6, 4)
CLASSES = np.arange(6)


def taken(source, *ports):
    return [{name: array.tolist() for name, array in one.items()} for one in samples(source, ports or [X])]


@pytest.mark.parametrize(
    "source",
    [
        (ROWS, CLASSES),
        [ROWS, CLASSES],
        (ROWS, CLASSES.tolist()),
        (ROWS, CLASSES.astype(np.float32)),
        (ROWS, CLASSES[:, None].astype(np.float32)),
        (ROWS, CLASSES, np.ones(6, np.float32)),  # with weights of the samples
        ({"x": ROWS}, CLASSES),
    ],
)
def test_labels_beside_the_samples_of_the_only_input_are_left_out(source):
    assert taken(source) == taken(ROWS)


def test_labels_beside_token_ids_are_left_out():
    assert taken((IDENTITIES, CLASSES), IDS) == taken(IDENTITIES, IDS)


def test_as_many_labels_as_features_are_labels_in_a_tuple_and_a_sample_in_a_list():
    assert taken((ROWS[:4], np.ones(4, np.float32))) == taken(ROWS[:4])
    assert len(taken([ROWS[:4], np.ones(4, np.float32)])) == 5


def test_one_sample_and_its_label_are_one_sample():
    assert taken((ROWS[0], 3)) == taken((ROWS[:1], np.int64(3))) == taken(ROWS[:1])


def test_arrays_of_several_inputs_are_one_item():
    pair = ROWS, ROWS[:, :2]
    expected = taken({"x": ROWS, "y": ROWS[:, :2]}, X, Y)
    assert taken(pair, X, Y) == taken((*pair, CLASSES), X, Y) == taken((pair, CLASSES), X, Y) == expected
    assert taken((ROWS[0], ROWS[0, :2]), X, Y) == expected[:1]


def test_samples_and_batches_stay_what_they_are():
    assert taken([ROWS[0], ROWS[1]]) == taken((ROWS[:1], ROWS[1:2])) == taken(ROWS[:2])
    assert taken((ROWS, ROWS)) == taken(ROWS) * 2
    assert taken(((ROWS, CLASSES), (ROWS, CLASSES))) == taken(ROWS) * 2


def test_an_array_that_is_neither_samples_nor_labels_is_refused_with_what_to_write():
    hot = np.eye(6, dtype=np.float32)
    message = "found samples of input 'x' and float32 data of shape 6x6, expected samples; if these are labels, give"
    with pytest.raises(DataError, match=re.escape(message)):
        taken((ROWS, hot))
    with pytest.raises(DataError, match="found int64 data, expected float32"):
        taken([ROWS, np.arange(5)])
